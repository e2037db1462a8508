"""Indexes over an embedding endpoint: a fake server on loopback, and a function."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import Benchmark
from hopsmith.cli import app, guarded
from retrieval import IndexFault, Passage, add_passages, build_index, open_index
from retrieval.embedding import (
    BASE,
    BATCH,
    KEY,
    WINDOW,
    Embedder,
    EmbedderSpec,
    embedder,
    text_windows,
)
from retrieval.errors import EmbeddingFault
from retrieval.journal import Journal
from retrieval.manifest import Manifest

DIM = 64
QUERY = "Who grows the Quorvan tulip?"
NEW = Passage("new", "Quorvan Tulip", "The Quorvan tulip is grown in glasshouses by Aldis Merk.")


def bag(texts: list[str]) -> Any:
    """Hashed bags of words."""
    out = np.zeros((len(texts), DIM), np.float32)
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+", text.lower()):
            out[row, int(hashlib.md5(word.encode()).hexdigest(), 16) % DIM] += 1
    return out


class Server:
    """Speaks OpenAI's embedding API. ``fails`` are statuses that the next requests get."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.keys: set[str | None] = set()
        self.fails: list[int] = []
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.keys.add(self.headers.get("Authorization"))
                    status = outer.fails.pop(0) if outer.fails else 200
                    if status == 200:
                        outer.asked.append(body["input"])
                found = [outer.shown(v, body) for v in bag(body["input"])]
                data = [
                    {"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(found)
                ]
                reply: dict[str, Any] = {"object": "list", "model": body["model"], "data": data}
                reply["usage"] = {"prompt_tokens": 1, "total_tokens": 1}
                if status != 200:
                    reply = {"error": {"message": f"status {status}", "type": "x", "code": "x"}}
                told = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    @staticmethod
    def shown(vector: Any, body: dict[str, Any]) -> Any:
        if body.get("encoding_format") == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return vector.tolist()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv(BASE, made.url)
    monkeypatch.setenv(KEY, "sk-secret")
    monkeypatch.setattr("retrieval.embedding.FIRST_WAIT", 0.0)
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """``module:function`` of ``bag``."""
    monkeypatch.setattr(sys.modules[__name__], "bag", bag)
    monkeypatch.setitem(sys.modules, "bagging", sys.modules[__name__])
    return "bagging:bag"


def ids(folder: Path, engine: str | None = None, query: str = QUERY) -> list[str]:
    return [p.id for p in open_index(folder, engine=engine).search([query], 5)[0]]


def test_an_endpoint_s_index_is_searched_by_every_engine_that_can(
    server: Server, world: Benchmark, tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    report = build_index([*world.corpus, NEW], folder, engine="dense", embedder="openai/some-model")
    assert report.passages == len(world.corpus) + 1
    assert max(map(len, server.asked)) <= BATCH
    for engine in ("dense", "exact", "two-stage", "bm25"):
        assert ids(folder, engine)[0] == "new"
    assert open_index(folder).identity["encoder"] == {
        "embedder": "openai/some-model",
        "own": True,
        "dim": DIM,
        "window": WINDOW,
    }
    written = (folder / "manifest.json").read_text()
    assert "sk-secret" not in written
    assert server.url not in written
    assert server.keys == {"Bearer sk-secret"}
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


def test_dense_ranks_as_the_vectors_do(server: Server, world: Benchmark, tmp_path: Path) -> None:
    build_index(world.corpus, tmp_path / "i", engine="dense", embedder="openai/m")
    texts = [f"{p.title}. {p.text}" for p in world.corpus]
    unit = bag(texts) / np.linalg.norm(bag(texts), axis=1, keepdims=True)
    query = bag(["a museum in a city"])[0]
    scores = unit @ (query / np.linalg.norm(query))
    found = open_index(tmp_path / "i").search(["a museum in a city"], 5)[0]
    assert [p.score for p in found] == pytest.approx(sorted(scores)[::-1][:5], abs=2e-3)


def test_what_passes_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.fails = [429, 503, 500]
    build_index([NEW], tmp_path / "i", embedder="openai/m")
    assert ids(tmp_path / "i") == ["new"]


@pytest.mark.parametrize(("status", "mend"), [(401, KEY), (404, BASE), (400, "--embedder")])
def test_what_does_not_pass_is_said_at_once(
    server: Server, status: int, mend: str, tmp_path: Path
) -> None:
    server.fails = [status] * 3
    with pytest.raises(EmbeddingFault, match=mend):
        build_index([NEW], tmp_path / "i", embedder="openai/m")
    assert len(server.fails) == 2
    assert not (tmp_path / "i").exists()


def test_a_build_that_broke_off_pays_for_nothing_twice(
    server: Server, world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.embedding.BATCH", 4)

    def cut_off(done: int, _: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(world.corpus, tmp_path / "i", embedder="openai/m", progress=cut_off)
    assert not (tmp_path / "i").exists()
    build_index(world.corpus, tmp_path / "i", embedder="openai/m")
    asked = [text for batch in server.asked for text in batch if text != "dimensions"]
    assert len(set(asked)) == len(asked) == len(world.corpus)
    assert [p.name for p in tmp_path.iterdir()] == ["i"]


def test_what_is_added_is_embedded_alone(server: Server, world: Benchmark, tmp_path: Path) -> None:
    build_index(world.corpus, tmp_path / "i", engine="dense", embedder="openai/m")
    server.asked.clear()
    add_passages(tmp_path / "i", [NEW])
    assert [t for batch in server.asked for t in batch] == [f"{NEW.title}. {NEW.text}"]
    assert ids(tmp_path / "i")[0] == "new"
    assert not (tmp_path / "i" / ".embedded").exists()


def test_a_query_is_embedded_once(server: Server, tmp_path: Path) -> None:
    build_index([NEW], tmp_path / "i", engine="dense", embedder="openai/m")
    retriever = open_index(tmp_path / "i")
    retriever.index.encoder.forget_queries()
    server.asked.clear()
    for _ in range(3):
        retriever.search([QUERY, "tulip"], 5)
    assert server.asked == [[QUERY, "tulip"]]


def test_an_own_server_s_index_is_never_sent_to_a_provider(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index([NEW], tmp_path / "i", engine="dense", embedder="openai/m")
    monkeypatch.delenv(BASE)
    with pytest.raises(EmbeddingFault, match=f"{BASE}=http"):
        open_index(tmp_path / "i")
    assert ids(tmp_path / "i", "bm25") == ["new"]


def test_another_model_s_vectors_are_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index([NEW], tmp_path / "i", engine="dense", embedder="openai/m")
    monkeypatch.setattr(sys.modules[__name__], "DIM", 32)
    retriever = open_index(tmp_path / "i")
    retriever.index.encoder.forget_queries()
    with pytest.raises(EmbeddingFault, match="is it the same model"):
        retriever.search(["something new"], 1)


def test_a_function_embeds_and_a_long_passage_counts_by_its_best_window(
    function: str, tmp_path: Path
) -> None:
    filler = [
        "rain",
        "wind",
        "field",
        "stone",
        "bread",
        "door",
        "lamp",
        "winter",
        "cart",
        "road",
    ] * 1000
    filler[6_000:6_000] = NEW.text.split()
    long = Passage("long", "", " ".join(filler))
    short = [Passage(f"s{i}", "", f"A note on {w}.") for i, w in enumerate(filler[:10])]
    build_index([*short, long], tmp_path / "i", engine="dense", embedder=function)
    found = open_index(tmp_path / "i").search([NEW.text], 50)[0]
    assert len(found) == 11
    assert len({p.id for p in found}) == 11


def spec(dim: int = DIM) -> EmbedderSpec:
    return EmbedderSpec("m:f", False, dim)


@pytest.mark.parametrize(
    ("embed", "mend"),
    [
        (lambda texts: bag(texts)[:, :3], "same model"),
        (lambda texts: bag(texts)[:1], "same model"),
        (lambda texts: bag(texts) * np.nan, "no numbers"),
        (lambda texts: [[1.0], [1.0, 2.0]], "gives no embeddings"),
        (lambda texts: None, "gives no embeddings"),
    ],
)
def test_bad_vectors_are_refused(embed: Callable[[list[str]], Any], mend: str) -> None:
    with pytest.raises(EmbeddingFault, match=mend):
        Embedder(spec(), embed).passages(["a", "b"])


def test_vectors_have_unit_length_in_the_order_of_the_texts() -> None:
    texts = [f"text {i}" for i in range(150)] + ["", "text 3"]
    found = Embedder(spec(), bag).passages(texts)
    assert all(v.shape == (1, DIM) for v in found)
    np.testing.assert_array_equal(found[3], found[-1])
    norms = [float(np.linalg.norm(v.astype("f"))) for v in found]
    assert norms == pytest.approx([1.0] * 150 + [0.0, 1.0], abs=2e-3)


def test_windows_cover_long_texts_in_any_script() -> None:
    words = [f"word{i}" for i in range(1000)]
    windows = text_windows(" ".join(words))
    assert {w for window in windows for w in window.split()} == set(words)
    assert text_windows("short") == ["short"]
    for text in ("漢" * 2000, "x" * 100_000, "!" * 100_000):
        assert max(map(len, text_windows(text))) <= WINDOW * 40


def test_a_journal_keeps_vectors_apart_by_embedder(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "one")
    assert journal.read(["a"]) == {}
    journal.write({"a": np.ones(3), "b": np.zeros(3)})
    again = Journal(tmp_path / "j", "one").read(["a", "c"])
    np.testing.assert_array_equal(again["a"], np.ones(3))
    assert set(again) == {"a"}
    assert Journal(tmp_path / "j", "two").read(["a"]) == {}
    assert len(journal.read([str(i) for i in range(2000)])) == 0


@pytest.mark.parametrize(
    ("name", "mend"),
    [("foo", "neither PROVIDER/MODEL"), ("no_such_module:f", "can't be imported")],
)
def test_what_is_no_embedder_is_refused(
    name: str, mend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(BASE, raising=False)
    with pytest.raises(EmbeddingFault, match=mend):
        embedder(name)


def test_an_embedder_stands_alone(function: str, tmp_path: Path) -> None:
    for flags in ({"engine": "bm25"}, {"checkpoint": "minilm"}):
        with pytest.raises(IndexFault, match="without a checkpoint"):
            build_index([NEW], tmp_path / "i", embedder=function, **flags)


def test_the_command_embeds_and_keeps_no_key(
    server: Server,
    world: Benchmark,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [{"id": p.id, "title": p.title, "text": p.text} for p in [*world.corpus[:5], NEW]]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hopsmith", *map(str, words)])
        code = guarded(app)
        told = capsys.readouterr()
        return code, told.out, told.err

    code, out, err = run(
        *("index", tmp_path / "c.jsonl", "--out", tmp_path / "i", "--engine", "dense"),
        *("--embedder", "openai/m", "--embedder-base", server.url, "--json"),
    )
    assert (code, json.loads(out)["engine"]) == (0, "dense"), err
    assert (Manifest.read(tmp_path / "i").encoder or {})["embedder"] == "openai/m"
    code, out, _ = run("search", QUERY, "--index", tmp_path / "i", "--json")
    assert (code, json.loads(out)["results"][0][0]["id"]) == (0, "new")
    server.fails = [401] * 9
    code, out, err = run("search", "another query", "--index", tmp_path / "i", "--json")
    assert (code, out) == (2, "")
    assert KEY in next(line for line in err.splitlines() if line.startswith("hopsmith: "))
