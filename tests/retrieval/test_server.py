"""The retrieval server: its bounds, who may ask, dspy's own client, metrics, and its end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import dspy
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from retrieval import BaseRetriever, Passage
from retrieval.remote import RemoteRetriever
from retrieval.server import Bounds, create_app

Serving = Callable[..., AbstractContextManager[str]]
SECRET = "a secret of some length"


@pytest.fixture
def client(words: BaseRetriever) -> Iterator[TestClient]:
    app = create_app(words, bounds=Bounds(k=20, queries=3, body=2048))
    with TestClient(app, base_url="http://127.0.0.1:8893") as client:
        yield client


@pytest.mark.parametrize("post", [False, True])
@pytest.mark.parametrize("token", [None, SECRET])
def test_dspys_own_client_is_answered(
    words: BaseRetriever, serving: Serving, post: bool, token: str | None
) -> None:
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    with serving(create_app(words, token=token)) as url:
        if token is not None:
            url = url.replace("http://", f"http://:{token.replace(' ', '%20')}@")
        theirs = dspy.ColBERTv2(url=f"{url}/api/search", post_requests=post)
        found = theirs("a museum by the river", k=4)
        (ours,) = words.search(["a museum by the river"], 4)
        assert [p.pid for p in found] == [p.id for p in ours]
        assert [p.score for p in found] == [p.score for p in ours]
        assert found[0].long_text == f"{ours[0].title} | {ours[0].text}"
        simple = theirs("a museum by the river", k=4, simplify=True)
        assert simple == [p.long_text for p in found]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"queries": ["a"] * 4}, 400, "at most 3 queries"),
        ({"queries": ["a"], "k": 21}, 400, "k may be 20"),
        ({"queries": ["a"], "k": 0}, 400, "k must be"),
        ({"queries": ["a"], "pool": 1001}, 400, "pool may be"),
        ({"queries": ["a"], "where": ["x=1"]}, 400, "can't filter"),
        ({"queries": ["a"], "where": ["x=1"] * 17}, 400, "where: "),
        ({"queries": [""]}, 400, "at least one word"),
        ({"queries": "a"}, 400, "queries: "),
        ({"query": "a"}, 400, "queries: "),
        ({"queries": ["a" * 3000]}, 413, "2,048 bytes"),
        ([], 400, ""),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_one_line(
    client: TestClient, body: Any, status: int, says: str
) -> None:
    reply = client.post("/v1/search", json=body)
    assert reply.status_code == status
    assert says in reply.json()["error"]


def test_a_body_without_a_declared_length_is_bounded_too(client: TestClient) -> None:
    endless = (b" " * 512 for _ in range(10_000))
    reply = client.post("/v1/search", content=endless)
    assert reply.status_code == 413


@settings(max_examples=60, deadline=None)
@given(body=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_no_body_breaks_the_server(body: bytes) -> None:
    with TestClient(create_app(_Nothing()), base_url="http://localhost") as client:
        for path in ("/v1/search", "/api/search"):
            reply = client.post(path, content=body)
            assert reply.status_code == 400
            assert reply.json()["error"]


@settings(max_examples=40, deadline=None)
@given(
    query=st.one_of(st.none(), st.integers(), st.text(max_size=20), st.lists(st.text())),
    k=st.one_of(st.none(), st.integers(), st.booleans(), st.floats(), st.text(max_size=5)),
)
def test_no_colbert_request_breaks_the_server(query: Any, k: Any) -> None:
    with TestClient(create_app(_Nothing()), base_url="http://localhost") as client:
        content = json.dumps({"query": query, "k": k})
        assert client.post("/api/search", content=content).status_code in (200, 400)


def test_only_who_has_the_token_is_answered(words: BaseRetriever) -> None:
    with TestClient(create_app(words, token=SECRET), base_url="http://index.example") as client:
        assert client.get("/healthz").status_code == 200
        for path in ("/v1/index", "/metrics", "/api/search?query=a"):
            assert client.get(path).status_code == 401
            for wrong in ("Bearer other", f"Digest {SECRET}", "Basic !!!", "Bearer "):
                refused = client.get(path, headers={"Authorization": wrong})
                assert refused.status_code == 401
                assert SECRET not in refused.text
            right = client.get(path, headers={"Authorization": f"Bearer {SECRET}"})
            assert right.status_code == 200


def test_without_a_token_a_foreign_name_is_not_answered(client: TestClient) -> None:
    for host, status in (
        ("evil.example", 403),
        ("evil.example:8893", 403),
        ("localhost:8893", 200),
        ("[::1]:8893", 200),
        ("127.0.0.2:8893", 200),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.1", 200),
    ):
        assert client.get("/v1/index", headers={"Host": host}).status_code == status


def test_metrics_count_requests_queries_and_passages(client: TestClient) -> None:
    client.post("/v1/search", json={"queries": ["a", "b"]})
    client.post("/v1/search", json={"queries": []})
    client.post("/v1/search", json={"queries": [""]})
    client.get("/some/where")
    told = client.get("/metrics").text
    assert 'hopsmith_index_requests_total{route="/v1/search",status="200"} 2.0' in told
    assert 'hopsmith_index_requests_total{route="/v1/search",status="400"} 1.0' in told
    assert 'hopsmith_index_requests_total{route="other",status="404"} 1.0' in told
    assert "hopsmith_index_queries_total 2.0" in told
    assert 'hopsmith_index_request_seconds_count{route="/v1/search"} 3.0' in told


def test_another_retriever_is_taken_up_whole() -> None:
    old, new = Passage("a", "", "the river"), Passage("b", "", "the other river")
    app = create_app(_Listed([old]))
    with TestClient(app, base_url="http://localhost") as client:

        def ids(**more: Any) -> list[str]:
            body = {"queries": ["river"], **more}
            found = client.post("/v1/search", json=body).json()["results"][0]
            return [p["id"] for p in found]

        assert (ids(), ids(where=["at=any"])) == (["a"], ["a"])
        app.state.served.take(_Listed([new, new]))
        assert (ids(), ids(where=["at=any"])) == (["b", "b"], ["b", "b"])
        assert client.get("/v1/index").json()["passages"] == 2
        assert client.get("/healthz").json()["passages"] == 2
        assert "hopsmith_index_passages 2.0" in client.get("/metrics").text


def test_health_tells_the_size_where_it_is_known(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "passages": None}


class _Nothing(BaseRetriever):
    identity = {"engine": "nothing"}  # type: ignore[assignment]
    corpus_hash = "0" * 64  # type: ignore[assignment]

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return [[] for _ in queries]


class _Listed(_Nothing):
    def __init__(self, passages: list[Passage]) -> None:
        self.passages = passages

    def __len__(self) -> int:
        return len(self.passages)

    def where(self, *conditions: Any) -> BaseRetriever:
        return _Listed(self.passages)

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return [self.passages for _ in queries]


class _Odd(_Nothing):
    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return [[Passage("é", "half \ud800", "\u2028 text", 0.1 + 0.2, 1, {"page": [1, None]})]]


def test_any_passage_comes_back_as_it_was(serving: Serving) -> None:
    with serving(create_app(_Odd())) as url:
        ((found,),) = RemoteRetriever(url).search(["a"], 1)
        ((sent,),) = _Odd().search(["a"], 1)
    assert (found, found.metadata) == (sent, sent.metadata)


class _Failing(_Nothing):
    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        raise OSError("/a/path/of/ours is gone")


def test_a_failure_says_no_more_than_its_kind() -> None:
    client = TestClient(
        create_app(_Failing()), base_url="http://localhost", raise_server_exceptions=False
    )
    reply = client.post("/v1/search", json={"queries": ["a"]})
    assert (reply.status_code, reply.json()) == (500, {"error": "the search failed: OSError"})


class _Slow(_Nothing):
    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        self.begun.set()
        assert self.go_on.wait(20)
        return [[] for _ in queries]


def test_a_request_under_way_ends_before_the_server_does(serving: Serving) -> None:
    slow = _Slow()
    replies: list[int] = []
    with serving(create_app(slow)) as url:

        def ask() -> None:
            replies.append(httpx.post(f"{url}/v1/search", json={"queries": ["a"]}).status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        assert slow.begun.wait(20)
        threading.Timer(0.2, slow.go_on.set).start()
    asking.join(20)
    assert replies == [200]
