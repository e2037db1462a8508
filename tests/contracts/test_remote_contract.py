"""A retriever behind a server keeps the contract, and answers as it does without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from benchmarks import Benchmark
from retrieval import BaseRetriever, QueryError, open_index
from retrieval.conformance import CHECKS, QUERIES, Subject
from retrieval.remote import RemoteRetriever, open_remote
from retrieval.server import create_app


@pytest.fixture(scope="module")
def local(small_index: Path) -> BaseRetriever:
    return open_index(small_index, engine="two-stage")


@pytest.fixture(scope="module")
def served(
    local: BaseRetriever, serving: Callable[..., AbstractContextManager[str]]
) -> Iterator[str]:
    """A live server's address."""
    with serving(create_app(local)) as url:
        yield url


@pytest.fixture(scope="module")
def remote(served: str) -> RemoteRetriever:
    return open_remote(served)


@pytest.mark.parametrize("check", CHECKS)
def test_a_served_index_keeps_the_contract(
    remote: RemoteRetriever, world: Benchmark, check: str
) -> None:
    note = CHECKS[check](Subject(remote, size=len(world.corpus)))
    assert not note


def test_a_filtered_one_keeps_the_contract_and_answers_as_the_local_one(
    remote: RemoteRetriever, local: BaseRetriever, world: Benchmark
) -> None:
    title = world.corpus[5].title
    far, near = remote.where(f"title!={title}"), local.where(f"title!={title}")
    assert far.search(QUERIES, 900) == near.search(QUERIES, 900)
    assert far.corpus_hash == near.corpus_hash != remote.corpus_hash
    for name, check in CHECKS.items():
        assert not check(Subject(far, size=len(near))), name  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="no passage has the column 'colour'"):
        remote.where("colour=red")


def test_it_answers_as_the_local_index(remote: RemoteRetriever, local: BaseRetriever) -> None:
    assert remote.search(QUERIES, 10, pool=20) == local.search(QUERIES, 10, pool=20)
    assert remote.identity == local.identity
    assert remote.corpus_hash == local.corpus_hash
