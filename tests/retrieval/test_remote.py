"""RemoteRetriever: what it does when its server is slow, gone, changed, or something else."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from benchmarks import Benchmark
from retrieval import BaseRetriever, Passage, QueryError, RemoteFault
from retrieval.remote import ATTEMPTS, RemoteRetriever, open_remote
from retrieval.server import Bounds, create_app
from retrieval.wire import TOKEN

Serving = Callable[..., AbstractContextManager[str]]
SECRET = "a secret of some length"


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)


def client(url: str, slept: list[float] | None = None, **options: Any) -> RemoteRetriever:
    """One that does not wait between its tries."""
    return RemoteRetriever(url, sleep=(slept if slept is not None else []).append, **options)


class Scripted:
    """An ASGI application that gives some replies and goes on as another's; alone, it repeats the
    first."""

    def __init__(self, replies: list[tuple[int, bytes]], app: Any = None, **headers: str) -> None:
        self.replies = replies
        self.app = app
        self.headers = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
        self.clients: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.clients.append(scope["client"])
        if self.app is not None and not self.replies:
            await self.app(scope, receive, send)
            return
        status, body = self.replies.pop(0) if self.app is not None else self.replies[0]
        await send({"type": "http.response.start", "status": status, "headers": self.headers})
        await send({"type": "http.response.body", "body": body})


def test_a_server_that_is_down_is_named_with_the_mend_after_a_few_tries() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    slept: list[float] = []
    with pytest.raises(RemoteFault, match=f"127.0.0.1:{port}.*hopsmith index-serve DIR") as fault:
        client(f"http://127.0.0.1:{port}", slept).search(["river"], 5)
    assert "\n" not in str(fault.value)
    assert len(slept) == ATTEMPTS - 1
    assert all(0 <= pause <= 4 for pause in slept)


def test_a_busy_server_is_asked_again_after_the_time_it_names(
    words: BaseRetriever, serving: Serving
) -> None:
    app = Scripted([(503, b""), (429, b"")], create_app(words), retry_after="7")
    slept: list[float] = []
    with serving(app, lifespan="off") as url:
        found = client(url, slept).search(["river"], 3)
    assert [p.id for p in found[0]] == [p.id for p in words.search(["river"], 3)[0]]
    assert slept == [7.0, 7.0]


def test_a_server_that_never_answers_is_given_up(serving: Serving) -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(60)

    with (
        serving(silent, lifespan="off", timeout_graceful_shutdown=0) as url,
        pytest.raises(RemoteFault, match=r"ReadTimeout after 0\.05 s"),
    ):
        client(url, patience=0.05).search(["river"], 3)


@pytest.mark.parametrize(
    "reply",
    [
        b"<html>It works!</html>",
        b"[]",
        b'{"format": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"error": "no"}',
    ],
)
def test_what_is_no_index_server_is_said_to_be_none(reply: bytes, serving: Serving) -> None:
    with (
        serving(Scripted([(200, reply)]), lifespan="off") as url,
        pytest.raises(RemoteFault, match="no Hopsmith index server"),
    ):
        open_remote(url)


@pytest.mark.parametrize("status", [301, 404, 500])
def test_other_statuses_are_no_index_server_either(status: int, serving: Serving) -> None:
    with (
        serving(Scripted([(status, b"{}")]), lifespan="off") as url,
        pytest.raises(RemoteFault, match=f"status {status}"),
    ):
        open_remote(url)


def test_a_reply_of_another_length_is_refused(words: BaseRetriever, serving: Serving) -> None:
    short = {"identity_hash": "x", "corpus_hash": "y", "results": []}
    with serving(create_app(words)) as url:
        remote = client(url)
        assert remote.corpus_hash
    with serving(Scripted([(200, json.dumps(short).encode())]), lifespan="off") as url:
        remote.close()
        remote.url = url
        with pytest.raises(RemoteFault, match="0 results for 1 queries"):
            remote.search(["river"], 3)


def test_the_token_is_sent_and_stays_out_of_identity_and_pickle(
    words: BaseRetriever, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(create_app(words, token=SECRET)) as url:
        with pytest.raises(RemoteFault, match=f"set {TOKEN}"):
            open_remote(url)
        with pytest.raises(RemoteFault, match=f"set {TOKEN}"):
            open_remote(url, token="a wrong one")
        remote = open_remote(url, token=SECRET)
        expected = remote.search(["river"], 3)
        data = pickle.dumps(remote)
        assert SECRET.encode() not in data
        assert SECRET not in str(remote.identity)
        with pytest.raises(RemoteFault, match=TOKEN):
            pickle.loads(data).search(["river"], 3)
        monkeypatch.setenv(TOKEN, SECRET)
        assert pickle.loads(data).search(["river"], 3) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "ftp://host",
        "http://host:port",
        "http://host/?token=x",
        "http:/host",
        "https://a:0x",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(RemoteFault, match="http://HOST:PORT is wanted"):
        RemoteRetriever(url)


def test_a_secret_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(RemoteFault, match=TOKEN) as fault:
        RemoteRetriever("http://me:hidden@host:1")
    assert "hidden" not in str(fault.value)


@pytest.mark.parametrize("bounds", [Bounds(queries=3), Bounds(body=1024)])
def test_large_batches_go_in_several_requests(
    words: BaseRetriever, world: Benchmark, serving: Serving, bounds: Bounds
) -> None:
    queries = [p.title for p in world.corpus] + ["é" * 100]
    with serving(create_app(words, bounds=bounds)) as url:
        assert client(url).search(queries, 4) == words.search(queries, 4)


def test_what_the_server_does_not_take_is_a_query_error(
    words: BaseRetriever, serving: Serving
) -> None:
    with serving(create_app(words, bounds=Bounds(k=7, body=1024))) as url:
        remote = client(url)
        with pytest.raises(QueryError, match="at most k=7"):
            remote.search(["river"], 8)
        with pytest.raises(QueryError, match="longer than the 1,024 bytes"):
            remote.search(["river " * 1000], 5)


def test_another_engine_than_asked_for_is_refused(words: BaseRetriever, serving: Serving) -> None:
    with serving(create_app(words)) as url:
        with pytest.raises(RemoteFault, match="index-serve DIR --engine exact"):
            open_remote(url, engine="exact")
        assert open_remote(url, engine="words").identity == words.identity


class Changing(BaseRetriever):
    """A served index that somebody exchanges."""

    said: Mapping[str, Any] = {"engine": "words"}
    hash = "a" * 64

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return [[] for _ in queries]

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.said

    @property
    def corpus_hash(self) -> str:
        return self.hash


def test_another_index_behind_the_address_is_noticed(serving: Serving) -> None:
    served = Changing()
    with serving(create_app(served)) as url:
        remote = client(url)
        remote.search(["river"], 3)
        served.hash = "b" * 64
        with pytest.warns(UserWarning, match="corpus served at .* has changed"):
            remote.search(["river"], 3)
        assert remote.corpus_hash == "b" * 64
        served.said = {"engine": "exact"}
        with pytest.raises(RemoteFault, match="another engine or encoder"):
            remote.search(["river"], 3)


def test_searches_share_a_connection(words: BaseRetriever, serving: Serving) -> None:
    app = Scripted([], create_app(words))
    with serving(app, lifespan="off") as url:
        remote = client(url)
        for _ in range(5):
            remote.search(["river"], 3)
        assert len(set(app.clients)) == 1
        remote.close()
        remote.search(["river"], 3)
        assert len(set(app.clients)) == 2
