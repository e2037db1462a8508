"""hopsmith graph: a graph of an index, and the methods that use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark
from hopsmith.cli import app, guarded
from hopsmith.graphs import _say_pass
from programs.knowledge.ingest import Extraction
from retrieval import Passage, add_passages, build_index, delete_passages


@pytest.fixture
def index(world: Benchmark, tmp_path: Path) -> Path:
    build_index(world.corpus, tmp_path / "index", engine="bm25")
    return tmp_path / "index"


def hopsmith(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    code = guarded(lambda **more: app(list(map(str, words)), **more))
    told = capsys.readouterr()
    return code, told.out, told.err


def graph_of(capsys: pytest.CaptureFixture[str], index: Path, *more: Any) -> dict[str, Any]:
    given = "--seed", 3, "--lm", "oracle", "--triples", "synthetic:30,40", "--json"
    code, out, err = hopsmith(capsys, "graph", "--index", index, *given, *more)
    assert code == 0, err
    told: dict[str, Any] = json.loads(out)
    return told


def test_a_dry_run_says_what_it_takes_and_writes_nothing(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = hopsmith(
        capsys, "graph", "--index", index, "--dry-run", "--price", "1,2", "--json"
    )
    assert code == 0
    (told,) = json.loads(out)["estimates"]
    assert told["passages"] == 40
    assert told["cost"] == pytest.approx(
        (told["prompt_tokens"] + 2 * told["completion_tokens"]) / 1e6
    )
    assert "40 passages to read" in err
    assert [p.name for p in index.parent.iterdir()] == ["index"]


def test_an_lm_pass_is_checked_against_given_triples_and_done_once(
    index: Path, world: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    told = graph_of(capsys, index, "--extract", "both", "--check", "synthetic:30,40")
    assert told["counts"]["propositions"] == len(world.triples)
    assert told["check"]["precision"] == told["check"]["recall"] == 1.0
    assert told["spent"]["lm_calls"] == 80
    again = graph_of(capsys, index, "--extract", "both")
    assert again["spent"]["lm_calls"] == 0


def test_given_triples_ask_no_lm_and_cover_types(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = graph_of(capsys, index)
    assert told["passes"] == []
    assert told["coverage"]["company"]["share"] == 1.0


def test_a_csv_of_triples_is_a_graph(
    index: Path, world: Benchmark, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    title = world.corpus[0].title
    (tmp_path / "triples.csv").write_text(f"subject,relation,object\n{title},likes,Orla\nA,b,C\n")
    code, out, err = hopsmith(
        capsys, "graph", "--index", index, "--triples", tmp_path / "triples.csv"
    )
    assert code == 0
    assert "1 triples" in out
    assert "A | b | C" in err


def test_given_triples_that_are_replaced_are_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [
        Passage("1", "Ombra Lamp", "Vell Works makes it.", metadata={"cites": "2"}),
        Passage("2", "Vell Works", "It makes lamps."),
    ]
    build_index(corpus, tmp_path / "index", engine="bm25")
    rows = "subject,relation,object\nOmbra Lamp,maker,Vell Works\nVell Works,makes,lamps\n"
    (tmp_path / "triples.csv").write_text(rows)
    triples, links = ("--triples", tmp_path / "triples.csv"), ("--links", "cites")
    for flags, held, said in (
        (triples, 2, ""),
        (links, 1, "2 triples given before are replaced"),
        ((*triples, *links), 3, ""),
        (triples, 2, "1 triples given before are replaced"),
    ):
        code, out, err = hopsmith(capsys, "graph", "--index", tmp_path / "index", *flags, "--json")
        assert code == 0, err
        assert json.loads(out)["counts"]["triples"] == held
        assert said in err
        assert ("replaced" in err) == bool(said)


def test_given_triples_are_not_checked_against_themselves(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--seed", 3, "--triples", "synthetic:30,40", "--check", "synthetic:30,40"
    code, out, err = hopsmith(capsys, "graph", "--index", index, *flags, "--json")
    assert (code, json.loads(out)["check"]) == (0, None)
    assert "no triples read by an LM" in err


def test_replies_that_can_not_be_read_name_what_helps() -> None:
    said: list[str] = []
    _say_pass(Extraction("triples", 3, 9, 0, ("p03",)), 2000, said.append)
    (_, mend) = said
    assert "HOPSMITH_MAX_TOKENS above 2000" in mend
    assert "--lm" in mend
    assert "\n" not in mend


@pytest.mark.parametrize(
    "row",
    [
        {
            "id": "2hop__1_2",
            "question": "Who founded the maker of the Ombra Lamp?",
            "answer": "Ada Quill",
            "paragraphs": [
                {"idx": 0, "title": "Ombra Lamp", "paragraph_text": "Vell Works makes it."},
                {"idx": 1, "title": "Vell Works", "paragraph_text": "Ada Quill founded it."},
            ],
            "question_decomposition": [
                {
                    "question": "Ombra Lamp >> manufacturer",
                    "answer": "Vell Works",
                    "paragraph_support_idx": 0,
                },
                {
                    "question": "#1 >> founded by",
                    "answer": "Ada Quill",
                    "paragraph_support_idx": 1,
                },
            ],
        },
        {
            "_id": "a1",
            "question": "Who founded the maker of the Ombra Lamp?",
            "answer": "Ada Quill",
            "type": "compositional",
            "context": [
                ["Ombra Lamp", ["Vell Works makes it."]],
                ["Vell Works", ["Ada Quill founded it."]],
            ],
            "supporting_facts": [["Ombra Lamp", 0], ["Vell Works", 0]],
            "evidences": [
                ["Ombra Lamp", "manufacturer", "Vell Works"],
                ["Vell Works", "founded by", "Ada Quill"],
            ],
        },
    ],
    ids=["musique", "2wikimultihopqa"],
)
def test_a_file_of_questions_that_state_triples_is_a_graph(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, row: dict[str, Any]
) -> None:
    corpus = [
        Passage("1", "Ombra Lamp", "Vell Works makes it."),
        Passage("2", "Vell Works", "Ada Quill founded it."),
    ]
    build_index(corpus, tmp_path / "index", engine="bm25")
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n")
    code, out, err = hopsmith(
        *(capsys, "graph", "--index", tmp_path / "index"),
        *("--triples", tmp_path / "dev.jsonl", "--json"),
    )
    assert code == 0, err
    assert json.loads(out)["counts"]["triples"] == 2


def test_ask_walks_the_graph_beside_the_index(
    index: Path, world: Benchmark, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    questions = tmp_path / "asked.jsonl"
    from benchmarks import question_to_json

    asked = [q for q in world.questions["dev"] if q.kind == "bridge"]
    questions.write_text("".join(json.dumps(question_to_json(q)) + "\n" for q in asked))
    run = "eval", "--method", "graph", "--index", index, "--data", questions, "--lm", "oracle"
    code, _, err = hopsmith(capsys, *run, "--json", "--out", "none")
    assert (code, "hopsmith graph --index DIR" in err) == (2, True)
    graph_of(capsys, index)
    code, out, err = hopsmith(capsys, *run, "--json", "--out", "run")
    assert code == 0, err
    told = json.loads(out)
    assert told["metrics"]["em"] == 1.0
    assert told["metrics"]["retrievals"] == 0.0
    code, out, err = hopsmith(capsys, "show", "run", "--question", asked[0].id)
    assert code == 0, err
    assert "· graph" in out


def test_passages_that_change_or_go_take_their_triples_along(
    index: Path, world: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    from hopsmith.knowledge import opened
    from programs.knowledge.store import GraphStore, beside
    from retrieval import open_index

    graph_of(capsys, index)
    gone = world.corpus[0]
    delete_passages(index, [gone.id])
    add_passages(index, [Passage("new", "Newtown", "Newtown is new.")])
    knowledge = opened(GraphStore(str(beside(index))), open_index(index))
    assert "1 of the graph's 40 passages" in capsys.readouterr().err
    assert all(t.passage != gone.id for t in knowledge.edges([gone.title.casefold()]))
    told = graph_of(capsys, index, "--extract", "triples", "--dry-run")
    assert told["estimates"][0]["passages"] == 40
    told = graph_of(capsys, index)
    assert (told["synced"]["new"], told["synced"]["gone"]) == (1, 1)
    assert told["counts"]["triples"] == sum(t.passage != gone.id for t in world.triples)


def test_a_graph_of_another_corpus_is_refused(
    index: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    graph_of(capsys, index)
    graph = index.parent / "index.graph.sqlite"
    build_index([Passage("x", "Else", "Something else.")], tmp_path / "other", engine="bm25")
    for words in (
        ("graph", "--index", tmp_path / "other", "--graph", graph),
        ("ask", "Who?", "--method", "graph", "--index", tmp_path / "other", "--graph", graph),
    ):
        code, _, err = hopsmith(capsys, *words)
        assert (code, "another corpus" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--extract", "all"], "there are triples, propositions, both, none"),
        (["--triples", "nowhere.csv"], "no file of triples"),
        (["--schema", "nowhere.json"], "--schema nowhere.json"),
        (["--links", "cites"], "'cites'"),
    ],
)
def test_faults_are_one_line(
    index: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code, out, err = hopsmith(capsys, "graph", "--index", index, *words)
    assert (code, out) == (2, "")
    assert said in err
