"""Building, resuming and changing a Qdrant collection, in the client's local mode."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark
from hopsmith.cli import app, guarded
from retrieval import (
    CorpusError,
    IndexFault,
    Passage,
    QueryError,
    RemoteFault,
    add_passages,
    build_index,
    delete_passages,
    open_index,
    open_retriever,
)
from retrieval.documents import DocumentCorpus
from retrieval.encoder import Encoder
from retrieval.qdrant import build_qdrant, streaming
from retrieval.qdrant.connection import asking, close_clients
from retrieval.qdrant.manifest import NEXT
from retrieval.qdrant.points import point_ids, term_weights

pytest.importorskip("qdrant_client", reason="Qdrant's client is an extra")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_clients()


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were encoded as passages."""
    texts: list[str] = []
    passages = Encoder.passages

    def noting(self: Encoder, given: Sequence[str], *more: Any) -> Any:
        texts.extend(given)
        return passages(self, given, *more)

    monkeypatch.setattr(Encoder, "passages", noting)
    return texts


def make(corpus: Sequence[Passage], folder: Path, **options: Any) -> Any:
    return build_qdrant(
        corpus, folder / "index", url=str(folder / "database"), collection="c", **options
    )


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    before = sys.argv
    sys.argv = ["hopsmith", *map(str, words)]
    try:
        code = guarded(app)
    finally:
        sys.argv = before
    told = capsys.readouterr()
    return code, told.out, told.err


class Crash(Exception):
    pass


def crash(*_: Any) -> Any:
    raise Crash


@pytest.fixture
def crash_at_second_request(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The collection goes away after the first points have arrived."""
    monkeypatch.setattr("retrieval.qdrant.points.REQUEST_TOKENS", 400)
    upsert, calls = streaming._upsert, []

    def once(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 1:
            raise Crash
        return upsert(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "_upsert", once)
        yield patch


def test_a_build_that_was_cut_short_goes_on_without_encoding_again(
    world: Benchmark,
    tmp_path: Path,
    encoded: list[str],
    crash_at_second_request: pytest.MonkeyPatch,
) -> None:
    corpus = world.corpus[:12]
    with pytest.raises(Crash):
        make(corpus, tmp_path)
    with pytest.raises(IndexFault, match="goes on where it stopped"):
        open_retriever(tmp_path / "index")
    crash_at_second_request.undo()
    first = len(encoded)
    assert first == 12
    report = make(corpus, tmp_path)
    assert report.passages == 12
    assert 0 < len(encoded) - first < 12
    build_index(corpus, tmp_path / "local")
    assert report.corpus_hash == open_index(tmp_path / "local").corpus_hash


def test_a_try_over_another_corpus_leaves_none_of_the_earlier(
    world: Benchmark, tmp_path: Path, crash_at_second_request: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Crash):
        make(world.corpus[:6], tmp_path)
    crash_at_second_request.undo()
    assert make(world.corpus[4:10], tmp_path).passages == 6
    found = open_retriever(tmp_path / "index")
    assert {p.id for p in found.corpus()} == {p.id for p in world.corpus[4:10]}  # type: ignore[attr-defined]


def test_add_and_delete_leave_what_a_build_would(world: Benchmark, tmp_path: Path) -> None:
    make(world.corpus[:6], tmp_path)
    index = tmp_path / "index"
    assert add_passages(index, world.corpus[6:9]).passages == 9
    with pytest.raises(CorpusError, match="in the index already"):
        add_passages(index, world.corpus[8:10])
    assert delete_passages(index, [world.corpus[0].id]).passages == 8
    with pytest.raises(CorpusError, match="no passage has the id"):
        delete_passages(index, [world.corpus[0].id])
    with pytest.raises(CorpusError, match="leave the index empty"):
        delete_passages(index, [p.id for p in world.corpus[1:9]])
    with pytest.raises(CorpusError, match="nothing to add"):
        add_passages(index, [])
    found = open_retriever(index)
    build_index(world.corpus[1:9], tmp_path / "local")
    assert found.corpus_hash == open_index(tmp_path / "local").corpus_hash
    assert {p.id for p in found.search(["river"], 20)[0]} == {p.id for p in world.corpus[1:9]}


def test_an_addition_that_was_cut_short_goes_on(
    world: Benchmark, tmp_path: Path, crash_at_second_request: pytest.MonkeyPatch
) -> None:
    crash_at_second_request.undo()
    make(world.corpus[:3], tmp_path)
    upsert, calls = streaming._upsert, []

    def once(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 1:
            raise Crash
        return upsert(*given)

    crash_at_second_request.setattr(streaming, "_upsert", once)
    with pytest.raises(Crash):
        add_passages(tmp_path / "index", world.corpus[3:10])
    crash_at_second_request.undo()
    assert add_passages(tmp_path / "index", world.corpus[5:10]).passages == 8
    found = open_retriever(tmp_path / "index")
    expected = [*world.corpus[:3], *world.corpus[5:10]]
    assert {p.id for p in found.corpus()} == {p.id for p in expected}  # type: ignore[attr-defined]
    build_index(expected, tmp_path / "local")
    assert found.corpus_hash == open_index(tmp_path / "local").corpus_hash


def test_a_long_passage_is_scored_by_its_best_window(tmp_path: Path) -> None:
    long = Passage("long", "Notes", "The harbour was quiet. " * 120 + "Zorblax won the prize. " * 9)
    corpus = [
        long,
        Passage("a", "Harbours", "Ships."),
        Passage("b", "Prizes", "Zorblax and others."),
    ]
    make(corpus, tmp_path)
    build_index(corpus, tmp_path / "local", engine="two-stage")
    queries = ["Who won the prize?", "a quiet harbour"]
    far = open_retriever(tmp_path / "index").search(queries, 3)
    near = open_index(tmp_path / "local").search(queries, 3)
    for a, b in zip(far, near, strict=True):
        assert [p.id for p in a] == [p.id for p in b]
        assert [p.score for p in a] == pytest.approx([p.score for p in b], abs=1e-5)


def test_a_passage_longer_than_a_multivector_may_be_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.qdrant.points.MOST_NUMBERS", 384 * 20)
    corpus = [Passage("short", "", "A few words."), Passage("long", "", "many words " * 20)]
    with pytest.raises(CorpusError, match=r"'long' has 4. tokens, and Qdrant takes 19.*split it"):
        make(corpus, tmp_path)
    assert make(corpus[:1], tmp_path).passages == 1


def test_metadata_and_wordless_passages_survive(tmp_path: Path) -> None:
    corpus = [
        Passage("1", "", "…", metadata={"page": 3, "tags": ["a"]}),
        Passage("2", "The", "the of and"),
    ]
    make(corpus, tmp_path)
    (found,) = open_retriever(tmp_path / "index").search(["anything"], 5)
    assert {p.id: dict(p.metadata) for p in found} == {"1": {"page": 3, "tags": ["a"]}, "2": {}}


def test_documents_that_changed_replace_what_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Harbour\n\nShips lie here.\n")
    (docs / "b.md").write_text("# Prize\n\nZorblax won it.\n")
    index = tmp_path / "index"
    words = ["--engine", "qdrant", "--url", tmp_path / "database", "--out", index, "--json"]
    code, out, err = run(capsys, "index", docs, *words)
    assert code == 0, err
    assert json.loads(out)["passages"] == 2
    (docs / "a.md").write_text("# Harbour\n\nThe ships have gone.\n\n# Weather\n\nIt rains.\n")
    code, out, err = run(capsys, "add", index, docs, "--json")
    assert code == 0, err
    texts = " ".join(p.text for p in open_retriever(index).corpus())  # type: ignore[attr-defined]
    assert "have gone" in texts
    assert "Ships lie here" not in texts
    assert "Zorblax" in texts
    before = open_retriever(index)
    run(capsys, "add", index, docs)
    again = open_retriever(index)
    assert (again.corpus_hash, len(again)) == (before.corpus_hash, len(before))  # type: ignore[arg-type]


def test_the_commands_index_search_add_and_delete(
    world: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    lines = [json.dumps({"id": p.id, "title": p.title, "text": p.text}) for p in world.corpus[:5]]
    corpus.write_text("\n".join(lines))
    index, database = tmp_path / "index", tmp_path / "database"
    words = ["index", corpus, "--engine", "qdrant", "--url", database, "--out", index, "--json"]
    code, out, _ = run(capsys, *words)
    told = json.loads(out)
    assert (code, told["engine"], told["passages"]) == (0, "qdrant", 5)
    assert told["bytes_per_passage"] > 1000
    title = world.corpus[2].title
    code, out, _ = run(capsys, "search", title, "--index", index, "--k", 1, "--json")
    assert [p["id"] for p in json.loads(out)["results"][0]] == [world.corpus[2].id]
    assert run(capsys, "delete", index, world.corpus[2].id)[0] == 0
    assert run(capsys, "delete", index, world.corpus[2].id)[0] == 2
    code, _, err = run(capsys, *words)
    assert (code, "--overwrite" in err) == (2, True)
    assert sum(line.startswith("hopsmith: ") for line in err.splitlines()) == 1
    assert run(capsys, *words, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("flags", "mend"),
    [
        (["--engine", "qdrant"], "needs --url"),
        (["--url", "http://127.0.0.1:9"], "go with --engine qdrant"),
        (["--engine", "qdrant", "--url", "x", "--vectors", "pq"], "leave --vectors out"),
    ],
)
def test_flags_that_make_no_sense_are_one_line(
    flags: list[str], mend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.jsonl").write_text('{"id": "1", "text": "a b"}\n')
    code, _, err = run(capsys, "index", tmp_path / "c.jsonl", "--out", tmp_path / "i", *flags)
    assert (code, mend in err, err.count("\n")) == (2, True, 1), err


def test_a_collection_of_somebody_elses_is_never_touched(world: Benchmark, tmp_path: Path) -> None:
    make(world.corpus[:3], tmp_path)
    with pytest.raises(IndexFault, match="does not name it"):
        build_qdrant(
            world.corpus[3:5],
            tmp_path / "other",
            url=str(tmp_path / "database"),
            collection="c",
            overwrite=True,
        )
    assert len(open_retriever(tmp_path / "index").search(["river"], 9)[0]) == 3


def test_bad_folders_are_refused_with_the_mend(world: Benchmark, tmp_path: Path) -> None:
    make(world.corpus[:3], tmp_path)
    manifest = tmp_path / "index" / "qdrant.json"
    whole = manifest.read_text()
    for text, mend in (("{", "can't be read"), (whole.replace('"format": 1', '"format": 9'), "9")):
        manifest.write_text(text)
        with pytest.raises(IndexFault, match=mend):
            open_retriever(tmp_path / "index")
    manifest.write_text(whole.replace('"collection": "c"', '"collection": "gone"'))
    with pytest.raises(IndexFault, match="there is no collection gone"):
        open_retriever(tmp_path / "index")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").touch()
    with pytest.raises(IndexFault, match="holds something else"):
        build_qdrant(world.corpus[:3], tmp_path / "taken", url=str(tmp_path / "d"), collection="c")
    with pytest.raises(CorpusError, match="the corpus is empty"):
        build_qdrant([], tmp_path / "empty", url=str(tmp_path / "d"), collection="c")
    assert not (tmp_path / "empty").exists()


def test_a_server_that_is_down_is_one_line(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.qdrant.connection.ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(RemoteFault, match=f"no Qdrant answers at {url}.*correct --url") as fault:
        build_qdrant(world.corpus[:3], tmp_path / "i", url=url, collection="c")
    assert "\n" not in str(fault.value)


def test_a_missing_client_names_the_extra(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client.http.exceptions", None)
    with pytest.raises(IndexFault, match=r'pip install "hopsmith\[qdrant\]"'):
        make(world.corpus[:3], tmp_path)


def test_points_and_terms_are_the_same_everywhere() -> None:
    assert point_ids("a") == point_ids("a")
    assert len({*point_ids("a"), *point_ids("b")}) == 4
    query = term_weights(["river", "museum", "river"], None)
    assert sorted(query["values"]) == [1.0, 2.0]
    passage = term_weights(["river"] * 3, average=3.0)
    assert passage["values"] == [pytest.approx(3 / (3 + 1.5))]
    assert set(passage["indices"]) < set(query["indices"])


def test_a_changed_passage_of_a_cut_short_build_is_encoded_again(
    world: Benchmark, tmp_path: Path, crash_at_second_request: pytest.MonkeyPatch
) -> None:
    corpus = list(world.corpus[:6])
    with pytest.raises(Crash):
        make(corpus, tmp_path)
    crash_at_second_request.undo()
    corpus = [replace(p, text=f"{p.text} Now.") for p in corpus]
    make(corpus, tmp_path)
    texts = [p.text for p in open_retriever(tmp_path / "index").corpus()]  # type: ignore[attr-defined]
    assert len(texts) == 6
    assert all(text.endswith("Now.") for text in texts)


def ids(index: Path) -> set[str]:
    return {p.id for p in open_retriever(index).corpus()}  # type: ignore[attr-defined]


def found(index: Path) -> set[str]:
    return {p.id for p in open_retriever(index).search(["river"], 50)[0]}


def test_a_second_change_at_once_is_refused_and_the_first_is_whole(
    world: Benchmark, tmp_path: Path
) -> None:
    make(world.corpus[:4], tmp_path)
    index = tmp_path / "index"

    def meanwhile() -> Iterator[Passage]:
        for change in (
            lambda: add_passages(index, world.corpus[10:12]),
            lambda: delete_passages(index, [world.corpus[0].id]),
            lambda: make(world.corpus[10:12], tmp_path, overwrite=True),
        ):
            with pytest.raises(IndexFault, match="being changed by another process: wait for it"):
                change()
        yield from world.corpus[4:6]

    assert add_passages(index, meanwhile()).passages == 6
    assert ids(index) == {p.id for p in world.corpus[:6]}


def test_a_search_during_an_addition_finds_what_was_there_before(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "CHUNK", 2)
    make(world.corpus[:4], tmp_path)
    index, before = tmp_path / "index", {p.id for p in world.corpus[:4]}
    opened = open_retriever(index)

    def meanwhile() -> Iterator[Passage]:
        for passage in world.corpus[4:10]:
            yield passage
            assert ids(index) == found(index) == before

    add_passages(index, meanwhile())
    assert {p.id for p in opened.search(["river"], 50)[0]} == before
    assert ids(index) == found(index) == {p.id for p in world.corpus[:10]}
    with pytest.raises(QueryError, match="no passage has the column"):
        open_retriever(index).where("colour=red")


def test_a_changed_document_is_found_as_it_was_until_its_addition_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    (docs / "a.md").write_text("# Harbour\n\nShips lie here.\n")
    (docs / "b.md").write_text("# Prize\n\nZorblax won it.\n")
    make(DocumentCorpus(docs), tmp_path)  # type: ignore[arg-type]
    (docs / "a.md").write_text("# Harbour\n\nThe ships have gone.\n")

    def texts() -> str:
        return " ".join(p.text for p in open_retriever(index).corpus())  # type: ignore[attr-defined]

    with monkeypatch.context() as patch:
        patch.setattr("retrieval.qdrant.change.commit", crash)
        with pytest.raises(Crash):
            add_passages(index, DocumentCorpus(docs))
    assert "Ships lie here" in texts()
    assert "have gone" not in texts()
    for text in ("The ships have gone", "They are back"):
        (docs / "a.md").write_text(f"# Harbour\n\n{text}.\n")
        report = add_passages(index, DocumentCorpus(docs))
        assert (report.passages, report.changed, report.removed) == (2, 1, 1)
        assert text in texts()
    build_index(DocumentCorpus(docs), tmp_path / "local")
    assert open_retriever(index).corpus_hash == open_index(tmp_path / "local").corpus_hash


def test_a_deletion_cut_short_is_counted_at_the_next_change(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(world.corpus[:6], tmp_path)
    index = tmp_path / "index"
    with monkeypatch.context() as patch:
        patch.setattr("retrieval.qdrant.manifest.QdrantManifest.write", crash)
        with pytest.raises(Crash):
            delete_passages(index, [world.corpus[0].id])
    assert add_passages(index, world.corpus[6:8]).passages == 7
    build_index(world.corpus[1:8], tmp_path / "local")
    assert open_retriever(index).corpus_hash == open_index(tmp_path / "local").corpus_hash


def test_an_index_that_is_overwritten_answers_until_the_new_one_is_whole(
    world: Benchmark,
    tmp_path: Path,
    encoded: list[str],
    crash_at_second_request: pytest.MonkeyPatch,
) -> None:
    crash_at_second_request.undo()
    index, old, new = tmp_path / "index", world.corpus[:3], world.corpus[3:15]
    make(old, tmp_path)
    upsert, calls = streaming._upsert, []

    def once(*given: Any) -> Any:
        calls.append(given)
        return upsert(*given) if len(calls) == 1 else crash()

    with crash_at_second_request.context() as patch:
        patch.setattr(streaming, "_upsert", once)
        with pytest.raises(Crash):
            make(new, tmp_path, overwrite=True)
    assert found(index) == {p.id for p in old}
    before = len(encoded)
    assert make(new, tmp_path, overwrite=True).passages == 12
    assert 0 < len(encoded) - before < 12
    assert found(index) == {p.id for p in new}
    assert collections(tmp_path) == {"c-next"}
    assert make(old, tmp_path, overwrite=True).passages == 3
    assert collections(tmp_path) == {"c"}
    assert not (index / NEXT).exists()


def collections(folder: Path) -> set[str]:
    with asking(str(folder / "database")) as ask:
        return {c.name for c in ask(lambda client: client.get_collections()).collections}


def test_what_an_overwriting_left_is_dropped_at_the_next_change(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(world.corpus[:3], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("retrieval.qdrant.build.sweep", lambda _, m: m.replaces and crash())
        with pytest.raises(Crash):
            make(world.corpus[3:6], tmp_path, overwrite=True)
    assert found(tmp_path / "index") == {p.id for p in world.corpus[3:6]}
    assert collections(tmp_path) == {"c", "c-next"}
    add_passages(tmp_path / "index", world.corpus[6:7])
    assert collections(tmp_path) == {"c-next"}


def test_overwriting_never_touches_a_collection_that_stands_beside(
    world: Benchmark, tmp_path: Path
) -> None:
    make(world.corpus[:3], tmp_path)
    beside = {"url": str(tmp_path / "database"), "collection": "c-next"}
    build_qdrant(world.corpus[3:5], tmp_path / "other", **beside)  # type: ignore[arg-type]
    with pytest.raises(IndexFault, match="c-next is there already"):
        make(world.corpus[5:7], tmp_path, overwrite=True)
    assert len(found(tmp_path / "other")) == 2
    assert len(found(tmp_path / "index")) == 3


def test_delete_takes_a_filter_and_compact_has_nothing_to_do(
    world: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make([replace(p, metadata={"n": i}) for i, p in enumerate(world.corpus[:5])], tmp_path)
    index = tmp_path / "index"
    code, _, err = run(capsys, "delete", index, "--where", "n>=3")
    assert code == 0, err
    assert ids(index) == {p.id for p in world.corpus[:3]}
    code, out, err = run(capsys, "compact", index)
    assert (code, out, err.count("\n"), "by itself" in err) == (2, "", 1, True)


def test_what_a_build_skips_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Harbour\n\nShips lie here.\n")
    (docs / "b.pdf").write_bytes(b"no PDF")
    words = ["--engine", "qdrant", "--url", tmp_path / "database", "--out", tmp_path / "index"]
    code, _, err = run(capsys, "index", docs, *words)
    assert (code, err.count("it is skipped")) == (0, 1), err
    assert "skipped documents, named above: 1" in err
