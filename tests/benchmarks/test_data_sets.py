"""Loaders of public data sets, on small files in their layouts, official and of the hub."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import Benchmark, BenchmarkError, Question, load, load_retrieval_set
from benchmarks.places import MISSING
from retrieval import passage_id
from signatures import Triple

LAMP = ["The Ombra Lamp is made by Vell Works.", " It is sold in boxes."]
VELL = ["Vell Works was founded by Ada Quill.", "It employs ninety people.", "It is in Tarn."]
QUILL = ["Ada Quill was born in 1931."]
OTHER = ["Tarn is a town."]
TEXTS = {
    "Ombra Lamp": "The Ombra Lamp is made by Vell Works. It is sold in boxes.",
    "Vell Works": "Vell Works was founded by Ada Quill. It employs ninety people. It is in Tarn.",
    "Ada Quill": "Ada Quill was born in 1931.",
    "Tarn": "Tarn is a town.",
}
IDS = {title: passage_id(title, text) for title, text in TEXTS.items()}


def write(path: Path, rows: Sequence[Mapping[str, Any]], array: bool = False) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(json.dumps(rows, indent=1) if array else lines, encoding="utf-8")
    return path


def only(benchmark: Benchmark, split: str = "dev") -> Question:
    (question,) = benchmark.split(split)
    return question


def hotpot(**changes: Any) -> dict[str, Any]:
    row = {
        "_id": "h1",
        "question": "Who founded the maker of the Ombra Lamp?",
        "answer": "Ada Quill",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Ombra Lamp", 0], ["Vell Works", 0], ["Vell Works", 2]],
        "context": [["Tarn", OTHER], ["Vell Works", VELL], ["Ombra Lamp", LAMP]],
    }
    return row | changes


def hub_hotpot() -> dict[str, Any]:
    return {
        **{k: v for k, v in hotpot().items() if k != "_id"},
        "id": "h1",
        "supporting_facts": {
            "title": ["Ombra Lamp", "Vell Works", "Vell Works"],
            "sent_id": [0, 0, 2],
        },
        "context": {
            "title": ["Tarn", "Vell Works", "Ombra Lamp"],
            "sentences": [OTHER, VELL, LAMP],
        },
    }


@pytest.mark.parametrize("row", [hotpot(), hub_hotpot()], ids=["official", "hub"])
def test_hotpotqa_has_one_hop_for_each_supporting_paragraph(tmp_path: Path, row: Any) -> None:
    benchmark = load("hotpotqa", data=write(tmp_path / "dev.jsonl", [row]))
    question = only(benchmark)
    assert (question.id, question.answers, question.kind) == ("h1", ("Ada Quill",), "bridge")
    assert question.supporting == (IDS["Ombra Lamp"], IDS["Vell Works"])
    assert [h.sentences for h in question.hops] == [(0,), (0, 2)]
    assert not question.ordered
    assert {p.id: p.text for p in benchmark.corpus} == {
        IDS[t]: TEXTS[t] for t in ("Tarn", "Vell Works", "Ombra Lamp")
    }
    assert benchmark.answer_rule == "hotpotqa"
    assert question.inputs().keys() == ["question"]


def test_a_json_array_and_a_gzipped_file_read_alike(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.jsonl", [hotpot()])
    array = write(tmp_path / "a.json", [hotpot()], array=True)
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    read = [dict(only(load("hotpotqa", data=path))) for path in (lines, array, packed)]
    assert read[0] == read[1] == read[2]


def test_paragraphs_are_pooled_once_by_title_and_text(tmp_path: Path) -> None:
    other = hotpot(
        _id="h2",
        question="Which town?",
        context=[["Tarn", ["Tarn is a river."]], ["Vell Works", VELL], ["Ombra Lamp", LAMP]],
    )
    benchmark = load("hotpotqa", data=write(tmp_path / "dev.jsonl", [hotpot(), other]))
    assert sorted(p.title for p in benchmark.corpus) == ["Ombra Lamp", "Tarn", "Tarn", "Vell Works"]


def test_two_paragraphs_of_one_title_in_a_context_are_both_pooled(tmp_path: Path) -> None:
    row = hotpot(context=[*hotpot()["context"], ["Vell Works", ["Another Vell Works."]]])
    benchmark = load("hotpotqa", data=write(tmp_path / "dev.jsonl", [row]))
    assert [p.title for p in benchmark.corpus].count("Vell Works") == 2
    assert only(benchmark).supporting == (IDS["Ombra Lamp"], IDS["Vell Works"])


def test_fullwiki_gold_outside_the_context_counts_as_not_found(tmp_path: Path) -> None:
    row = hotpot(context=[["Ombra Lamp", LAMP]])
    benchmark = load("hotpotqa", data=write(tmp_path / "dev.jsonl", [row]))
    assert only(benchmark).supporting == (IDS["Ombra Lamp"], MISSING + "Vell Works")
    assert any("'Vell Works' is not in the corpus" in fault for fault in benchmark.faults)


def test_fullwiki_gold_is_found_in_a_given_corpus(tmp_path: Path) -> None:
    corpus = write(
        tmp_path / "wiki.jsonl",
        [{"id": f"w{n}", "title": t, "text": x} for n, (t, x) in enumerate(TEXTS.items())],
    )
    data = write(tmp_path / "dev.jsonl", [hotpot(context=[["Ombra Lamp", LAMP]])])
    benchmark = load("hotpotqa", data=data, corpus=corpus)
    assert only(benchmark).supporting == ("w0", "w1")
    assert len(benchmark.corpus) == 4
    assert benchmark.faults == ()


def test_a_given_corpus_with_several_passages_of_a_title_is_matched_by_text(tmp_path: Path) -> None:
    corpus = write(
        tmp_path / "wiki.jsonl",
        [
            {"id": "a", "title": "Ombra Lamp", "text": "A film."},
            {"id": "b", "title": "Ombra Lamp", "text": TEXTS["Ombra Lamp"].upper()},
            {"id": "c", "title": "vell works", "text": "Another dump's text."},
        ],
    )
    benchmark = load("hotpotqa", data=write(tmp_path / "d.jsonl", [hotpot()]), corpus=corpus)
    assert only(benchmark).supporting == ("b", "c")


def test_records_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    rows = [
        hotpot(),
        hotpot(_id="h2", answer=None),
        hotpot(_id="h3", supporting_facts=[]),
        hotpot(),
        {"question": "Which?"},
        hotpot(_id="h6", context="not json"),
    ]
    benchmark = load("hotpotqa", data=write(tmp_path / "dev.jsonl", rows))
    assert [q.id for q in benchmark.split("dev")] == ["h1"]
    assert [fault.split(": left out: ")[0] for fault in benchmark.faults] == [
        f"{tmp_path / 'dev.jsonl'}:{n}" for n in (2, 3, 4, 5, 6)
    ]
    assert "answer" in benchmark.faults[0]
    assert "already" in benchmark.faults[2]


def test_a_sentence_past_the_end_is_named_and_the_record_kept(tmp_path: Path) -> None:
    row = hotpot(supporting_facts=[["Ombra Lamp", 0], ["Vell Works", 3]])
    benchmark = load("hotpotqa", data=write(tmp_path / "dev.jsonl", [row]))
    assert [h.sentences for h in only(benchmark).hops] == [(0,), ()]
    (fault,) = benchmark.faults
    assert "dev.jsonl:1" in fault
    assert "sentence 3 of 'Vell Works'" in fault


def test_a_file_of_another_layout_is_refused_with_its_first_fault(tmp_path: Path) -> None:
    with pytest.raises(
        BenchmarkError, match=r"no record of the dev split.*dev\.jsonl:1.*id: Field required"
    ):
        load("musique", data=write(tmp_path / "dev.jsonl", [hotpot()]))


def musique(**changes: Any) -> dict[str, Any]:
    row = {
        "id": "3hop1__7_8_9",
        "question": "When was the founder of the maker of the Ombra Lamp born?",
        "answer": "1931",
        "answer_aliases": ["in 1931"],
        "answerable": True,
        "question_decomposition": [
            {
                "id": 7,
                "question": "Ombra Lamp >> manufacturer",
                "answer": "Vell Works",
                "paragraph_support_idx": 2,
            },
            {
                "id": 8,
                "question": "#1 >> founded by",
                "answer": "Ada Quill",
                "paragraph_support_idx": 0,
            },
            {
                "id": 9,
                "question": "When was #2 born ?",
                "answer": "1931",
                "paragraph_support_idx": 1,
            },
        ],
        "paragraphs": [
            {"idx": n, "title": t, "paragraph_text": TEXTS[t], "is_supporting": t != "Tarn"}
            for n, t in enumerate(("Vell Works", "Ada Quill", "Ombra Lamp", "Tarn"))
        ],
    }
    return row | changes


def test_musique_sub_questions_become_hops_in_words(tmp_path: Path) -> None:
    benchmark = load("musique", data=write(tmp_path / "dev.jsonl", [musique()]))
    question = only(benchmark)
    assert [h.question for h in question.hops] == [
        "Who is the manufacturer of Ombra Lamp?",
        "Who founded {answer_1}?",
        "When was {answer_2} born?",
    ]
    assert [h.answer for h in question.hops] == ["Vell Works", "Ada Quill", "1931"]
    assert [h.passage for h in question.hops] == [
        IDS["Ombra Lamp"],
        IDS["Vell Works"],
        IDS["Ada Quill"],
    ]
    assert question.answers == ("1931", "in 1931")
    assert question.ordered
    assert question.meta["sub_questions"][0] == "Ombra Lamp >> manufacturer"
    assert benchmark.answer_rule == "squad"


def test_musique_relations_are_triples_of_the_passages_that_answer_them(tmp_path: Path) -> None:
    data = write(tmp_path / "dev.jsonl", [musique()])
    assert load("musique", data=data).triples == [
        Triple("Ombra Lamp", "manufacturer", "Vell Works", IDS["Ombra Lamp"]),
        Triple("Vell Works", "founded by", "Ada Quill", IDS["Vell Works"]),
    ]


def test_a_musique_triple_may_name_answers_within_its_subject(tmp_path: Path) -> None:
    row = musique()
    row["question_decomposition"][2]["question"] = "Archive of #2 , #1 >> inception"
    told = load("musique", data=write(tmp_path / "dev.jsonl", [row])).triples[-1]
    assert told == Triple("Archive of Ada Quill, Vell Works", "inception", "1931", IDS["Ada Quill"])


def unanswerable() -> dict[str, Any]:
    row = musique(answerable=False)
    row["question_decomposition"][2]["paragraph_support_idx"] = None
    row["paragraphs"] = [p for p in row["paragraphs"] if p["title"] != "Ada Quill"]
    return row


def test_musique_full_has_unanswerable_questions(tmp_path: Path) -> None:
    question = only(load("musique", data=write(tmp_path / "dev.jsonl", [unanswerable()])))
    assert (question.answer, question.answers, question.answerable) == (None, (), False)
    assert question.kind == "null"
    assert question.hops[2].passage is None
    assert question.supporting == (IDS["Ombra Lamp"], IDS["Vell Works"])


def test_a_question_that_the_pooled_corpus_answers_is_not_unanswerable(tmp_path: Path) -> None:
    benchmark = load("musique", data=write(tmp_path / "dev.jsonl", [unanswerable(), musique()]))
    assert [q.id for q in benchmark.split("dev")] == ["3hop1__7_8_9"]
    assert "3hop1__7_8_9-unanswerable: left out" in benchmark.faults[0]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"question": "Who is #3?"}, "not before it"),
        ({"paragraph_support_idx": 17}, "paragraph 17"),
        ({"paragraph_support_idx": None}, "names no paragraph"),
    ],
)
def test_a_broken_musique_chain_is_named(tmp_path: Path, step: Any, reason: str) -> None:
    broken = musique(id="2hop__1")
    broken["question_decomposition"][1].update(step)
    benchmark = load("musique", data=write(tmp_path / "dev.jsonl", [musique(), broken]))
    assert len(benchmark.split("dev")) == 1
    assert reason in benchmark.faults[0]


def two_wiki(**changes: Any) -> dict[str, Any]:
    row = {
        "_id": "w1",
        "question": "When was the founder of Vell Works born?",
        "answer": "1931",
        "type": "compositional",
        "supporting_facts": [["Ada Quill", 0], ["Vell Works", 0]],
        "evidences": [
            ["Vell Works", "founded by", "Ada Quill"],
            ["Ada Quill", "date of birth", "1931"],
        ],
        "context": [["Tarn", OTHER], ["Ada Quill", QUILL], ["Vell Works", VELL]],
    }
    return row | changes


EVIDENCES = [
    two_wiki()["evidences"],
    json.dumps(two_wiki()["evidences"]),
    [{"subject": s, "relation": r, "object": o} for s, r, o in two_wiki()["evidences"]],
    {
        "fact": ["Vell Works", "Ada Quill"],
        "relation": ["founded by", "date of birth"],
        "entity": ["Ada Quill", "1931"],
    },
    list(reversed(two_wiki()["evidences"])),
]


@pytest.mark.parametrize(
    "evidences", EVIDENCES, ids=["list", "json", "maps", "columns", "reversed"]
)
def test_2wiki_triples_become_sub_questions_in_order(tmp_path: Path, evidences: Any) -> None:
    data = write(tmp_path / "dev.jsonl", [two_wiki(evidences=evidences)])
    question = only(load("2wikimultihopqa", data=data))
    assert [(h.question, h.answer, h.passage) for h in question.hops] == [
        ("Who founded Vell Works?", "Ada Quill", IDS["Vell Works"]),
        ("When was {answer_1} born?", "1931", IDS["Ada Quill"]),
    ]
    assert question.kind == "bridge"


def test_2wiki_subjects_under_another_name_find_their_passages(tmp_path: Path) -> None:
    row = two_wiki(
        evidences=[
            ["Vell Works (company)", "founded by", "Ada Quill"],
            ["Adelaide Quill", "date of birth", "1931"],
        ],
    )
    question = only(load("2wikimultihopqa", data=write(tmp_path / "dev.jsonl", [row])))
    assert [h.passage for h in question.hops] == [IDS["Vell Works"], IDS["Ada Quill"]]
    assert question.hops[1].question == "When was {answer_1} born?"


def test_2wiki_bridge_comparisons_have_two_chains(tmp_path: Path) -> None:
    films = {"Dusk": "Ira Moss", "Dawn": "Una Reed"}
    born = {"Ira Moss": "1920", "Una Reed": "1935"}
    context: list[tuple[str, list[str]]] = [
        (f, [f"{f} is a film by {d}."]) for f, d in films.items()
    ]
    context += [(d, [f"{d} was born in {y}."]) for d, y in born.items()]
    row = two_wiki(
        type="bridge_comparison",
        question="Which film has the older director, Dusk or Dawn?",
        answer="Dusk",
        context=context,
        supporting_facts=[[title, 0] for title, _ in context],
        evidences=[[f, "director", d] for f, d in films.items()]
        + [[d, "date of birth", y] for d, y in born.items()],
    )
    question = only(load("2wikimultihopqa", data=write(tmp_path / "dev.jsonl", [row])))
    assert [h.depends_on for h in question.hops] == [(), (), (1,), (2,)]
    titles = {passage_id(t, s[0]): t for t, s in context}
    assert [titles[h.passage or ""] for h in question.hops] == ["Dusk", "Dawn", *born]


def test_2wiki_several_objects_of_one_relation_make_one_hop(tmp_path: Path) -> None:
    evidences = [
        ["Vell Works", "country", "Norr"],
        ["Vell Works", "country", "Sund"],
        ["Ada Quill", "country", "Norr"],
    ]
    row = two_wiki(type="comparison", evidences=evidences)
    question = only(load("2wikimultihopqa", data=write(tmp_path / "dev.jsonl", [row])))
    assert [h.answer for h in question.hops] == ["Norr, Sund", "Norr"]
    assert [h.depends_on for h in question.hops] == [(), ()]


def test_2wiki_aliases_stand_beside_the_data(tmp_path: Path) -> None:
    write(tmp_path / "id_aliases.json", [{"Q_id": "Q9", "aliases": ["MCMXXXI"], "demonyms": []}])
    data = write(tmp_path / "dev.json", [two_wiki(answer_id="Q9")], array=True)
    assert only(load("2wikimultihopqa", data=data)).answers == ("1931", "MCMXXXI")


@pytest.mark.parametrize("line", ["{", '{"aliases": []}', '{"Q_id": "Q9", "aliases": 5}'])
def test_2wiki_aliases_that_cannot_be_read_name_file_and_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "id_aliases.json").write_text('{"Q_id": "Q1"}\n' + line + "\n")
    with pytest.raises(BenchmarkError, match=r"id_aliases\.json:2"):
        load("2wikimultihopqa", data=write(tmp_path / "dev.jsonl", [two_wiki()]))


def test_morehopqa_has_a_hop_for_each_paragraph(tmp_path: Path) -> None:
    row = {
        "_id": "m1",
        "question": "How many letters has the founder's first name?",
        "answer": 3,
        "previous_question": "Who founded the maker of the Ombra Lamp?",
        "question_decomposition": [
            {
                "sub_id": "1",
                "question": "Who?",
                "answer": "Ada Quill",
                "paragraph_support_title": "Vell Works",
            }
        ],
        "context": [["Ombra Lamp", LAMP], ["Vell Works", VELL]],
        "no_of_hops": 3,
    }
    question = only(load("morehopqa", data=write(tmp_path / "s.jsonl", [row])))
    assert question.answers == ("3",)
    assert [h.passage for h in question.hops] == [IDS["Ombra Lamp"], IDS["Vell Works"]]
    assert not question.ordered
    assert question.meta["hops"] == 3


LINKS = ["https://en.wikipedia.org/wiki/Vell_Works", "https://en.wikipedia.org/wiki/Ada_Quill#Life"]


@pytest.mark.parametrize(
    "links",
    [
        {"wiki_links": str(LINKS)},
        {"wiki_links": LINKS},
        {"wikipedia_link_1": LINKS[0], "wikipedia_link_2": LINKS[1], "wikipedia_link_11+": ""},
    ],
    ids=["text", "list", "columns"],
)
@pytest.mark.parametrize("column", ["Prompt", "Question"])
def test_frames_gold_is_the_linked_pages(tmp_path: Path, links: Any, column: str) -> None:
    row = {column: "When?", "Answer": "1931", "reasoning_types": "Temporal reasoning | Other"}
    data = write(tmp_path / "s.jsonl", [row | links])
    question = only(load("frames", data=data))
    assert question.supporting == tuple(LINKS)
    assert question.kind == "temporal"
    corpus = write(
        tmp_path / "wiki.jsonl",
        [{"id": LINKS[0], "title": "?", "text": "x"}, {"id": 7, "title": "Ada Quill", "text": "y"}],
    )
    assert only(load("frames", data=data, corpus=corpus)).supporting == (LINKS[0], "7")


def test_frames_reads_the_official_table(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text(
        "\tPrompt\tAnswer\treasoning_types\twiki_links\n"
        f'0\tWhen was she born?\t1931\tMultiple constraints\t"{LINKS}"\n'
    )
    benchmark = load("frames", data=path)
    assert only(benchmark).id == "frames-0"
    assert only(benchmark).supporting == tuple(LINKS)


def test_frames_pages_outside_the_corpus_are_named(tmp_path: Path) -> None:
    data = write(tmp_path / "s.jsonl", [{"Prompt": "When?", "Answer": "1", "wiki_links": LINKS}])
    corpus = write(tmp_path / "wiki.jsonl", [{"id": "1", "title": "Ada Quill", "text": "y"}])
    benchmark = load("frames", data=data, corpus=corpus)
    (fault,) = benchmark.faults
    assert LINKS[0] in fault


def news(**changes: Any) -> dict[str, Any]:
    evidence = [
        {"title": "Lamps sell", "url": "https://n.example/1", "fact": "They sell."},
        {"title": "Works grow", "url": "https://n.example/2", "fact": "They grow."},
    ]
    return {
        "query": "Do both report growth?",
        "answer": "Yes",
        "question_type": "comparison_query",
        "evidence_list": evidence,
    } | changes


def test_multihop_rag_gold_is_the_articles(tmp_path: Path) -> None:
    null = news(
        query="Who?",
        answer="Insufficient information.",
        question_type="null_query",
        evidence_list=[],
    )
    data = write(tmp_path / "MultiHopRAG.json", [news(), null], array=True)
    corpus = write(
        tmp_path / "corpus.json",
        [{"title": "Works grow", "body": "They grow."}, {"title": "Lamps sell", "body": "Yes."}],
        array=True,
    )
    asked, unanswerable = load("multihop-rag", data=data, corpus=corpus).split("dev")
    assert asked.supporting == (
        passage_id("Lamps sell", "Yes."),
        passage_id("Works grow", "They grow."),
    )
    assert (unanswerable.answer, unanswerable.answerable, unanswerable.kind) == (
        None,
        False,
        "null",
    )
    without = load("multihop-rag", data=data).split("dev")[0]
    assert without.supporting == ("https://n.example/1", "https://n.example/2")


def test_multihop_rag_reads_ground_truth_as_well(tmp_path: Path) -> None:
    flat = news()
    row = {
        "id": "4",
        "question": flat["query"],
        "question_type": flat["question_type"],
        "ground_truth": {k: flat[k] for k in ("answer", "evidence_list")},
    }
    question = only(load("multihop-rag", data=write(tmp_path / "s.jsonl", [row])))
    assert question.id == "multihop-rag-4"
    assert len(question.supporting) == 2


def retrieval_set(folder: Path) -> Path:
    write(
        folder / "passages.jsonl",
        [{"id": n, "title": t, "text": x} for n, (t, x) in enumerate(TEXTS.items())],
    )
    write(
        folder / "questions.jsonl",
        [
            {
                "id": "q1",
                "question": "Who?",
                "answer": "Ada Quill",
                "answer_aliases": ["A. Quill"],
                "supporting_titles": ["Ombra Lamp", "Vell Works"],
            },
            {"id": "q2", "question": "Where?", "answer": "Tarn", "supporting_titles": ["Gone"]},
        ],
    )
    return folder


@pytest.mark.parametrize("name", ["2wikimultihopqa", "own"])
def test_questions_by_title_find_their_passages(tmp_path: Path, name: str) -> None:
    folder = retrieval_set(tmp_path)
    whole = load_retrieval_set(folder)
    parts = load(name, data=folder / "questions.jsonl", corpus=folder / "passages.jsonl")
    for benchmark in (whole, parts, load(name, data=folder)):
        first, second = benchmark.split("dev")
        assert first.supporting == ("0", "1")
        assert first.answers == ("Ada Quill", "A. Quill")
        assert second.supporting == (MISSING + "Gone",)
        assert len(benchmark.faults) == 1


def test_a_folder_gives_its_splits(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", [hotpot()])
    write(tmp_path / "validation.jsonl", [hotpot(_id="h2", question="Another?")])
    benchmark = load("hotpotqa", data=tmp_path)
    assert {s: len(q) for s, q in benchmark.questions.items()} == {"train": 1, "dev": 1}
    assert set(load("hotpotqa", data=tmp_path, split="dev").questions) == {"dev"}


def test_a_question_in_two_splits_is_named(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", [hotpot()])
    dev = write(tmp_path / "dev.jsonl", [hotpot(_id="h2")])
    benchmark = load("hotpotqa", train=train, dev=dev)
    assert benchmark.faults == ("dev h2: is asked in train too",)


class FakeHub:
    """Stands in for ``datasets``: tables by (path, config, split)."""

    def __init__(self, tables: Mapping[tuple[str, str | None, str], list[dict[str, Any]]]) -> None:
        self.tables = tables

    def load_dataset(self, path: str, name: str | None, split: str) -> list[dict[str, Any]]:
        if (path, name, split) not in self.tables:
            raise ConnectionError(f"Couldn't reach\n{path}")
        return self.tables[path, name, split]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    import sys

    made = FakeHub(
        {
            ("hotpotqa/hotpot_qa", "distractor", "train"): [hub_hotpot()],
            ("hotpotqa/hotpot_qa", "distractor", "validation"): [
                hub_hotpot() | {"id": "h2", "question": "Another?"}
            ],
            ("yixuantt/MultiHopRAG", "MultiHopRAG", "train"): [news()],
            ("yixuantt/MultiHopRAG", "corpus", "train"): [
                {"title": "Lamps sell", "body": "Yes.", "url": "u"},
                {"title": "Works grow", "body": "They grow.", "url": "v"},
            ],
        }
    )
    monkeypatch.setitem(sys.modules, "datasets", made)  # type: ignore[arg-type]
    return made


@pytest.mark.usefixtures("hub")
def test_without_files_the_hub_is_asked() -> None:
    benchmark = load("hotpotqa")
    assert {s: [q.id for q in asked] for s, asked in benchmark.questions.items()} == {
        "train": ["h1"],
        "dev": ["h2"],
    }
    assert set(load("hotpotqa", split="dev").questions) == {"dev"}
    news_set = load("multihop-rag")
    assert {p.id for p in news_set.corpus} == set(only(news_set).supporting)


@pytest.mark.usefixtures("hub")
def test_a_hub_out_of_reach_says_what_to_do() -> None:
    with pytest.raises(BenchmarkError, match=r"Couldn't reach dgslibisey/MuSiQue\).*--data"):
        load("musique")


@pytest.mark.usefixtures("hub")
def test_a_split_that_the_hub_lacks_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="no test split with answers; it has train, dev"):
        load("hotpotqa", split="test")


ROWS: Mapping[str, dict[str, Any]] = {
    "hotpotqa": hotpot(),
    "musique": musique(),
    "2wikimultihopqa": two_wiki(),
    "morehopqa": hotpot(_id="m1"),
    "frames": {"Prompt": "When?", "Answer": "1931", "wiki_links": LINKS},
    "multihop-rag": news() | {"ground_truth": None},
}
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.text(max_size=6) | st.just("[[1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_row_with_junk_in_it_is_read_or_named(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    good = ROWS[name]
    column = data.draw(st.sampled_from(sorted(good)))
    value = data.draw(JUNK | st.lists(JUNK, max_size=3).map(lambda items: [good[column], *items]))
    path = tmp_path_factory.mktemp("junk") / "dev.jsonl"
    sound = good | {"id" if "id" in good else "_id": "sound"}
    if name in ("frames", "multihop-rag"):
        sound |= {("Prompt" if name == "frames" else "query"): "A sound one?"}
    asked = load(name, data=write(path, [sound, good | {column: value}]))
    read = asked.split("dev")
    assert len(read) == 2 or any(f"{path}:2: left out: " in fault for fault in asked.faults)
    for question in read:
        assert question.question.strip()
        assert not question.answerable or (question.answer.strip() and question.supporting)


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize("column", ["question", "answer"])
def test_a_blank_question_or_answer_is_named(tmp_path: Path, column: str, blank: str) -> None:
    rows = [hotpot(), hotpot(_id="h2") | {column: blank}]
    benchmark = load("hotpotqa", data=write(tmp_path / "dev.jsonl", rows))
    assert [q.id for q in benchmark.split("dev")] == ["h1"]
    assert len(benchmark.faults) == 1


def test_an_answerable_news_question_without_evidence_is_named(tmp_path: Path) -> None:
    rows = [news(), news(query="And?", evidence_list=[])]
    benchmark = load("multihop-rag", data=write(tmp_path / "s.jsonl", rows))
    assert len(benchmark.split("dev")) == 1
    assert "there is no evidence" in benchmark.faults[0]


def test_zero_is_an_answer_of_frames(tmp_path: Path) -> None:
    row = {"Prompt": "How many?", "Answer": 0, "wiki_links": LINKS}
    assert only(load("frames", data=write(tmp_path / "s.jsonl", [row]))).answer == "0"


@pytest.mark.parametrize("links", ["5", "'x'", [1, None], "nowhere", {}])
def test_frames_links_that_cannot_be_read_are_named(tmp_path: Path, links: Any) -> None:
    row = {"Prompt": "When?", "Answer": "1931", "wiki_links": LINKS}
    bad = {"Prompt": "Who?", "Answer": "Ada Quill", "wiki_links": links}
    benchmark = load("frames", data=write(tmp_path / "s.jsonl", [row, bad]))
    assert len(benchmark.split("dev")) == 1
    assert "there are no Wikipedia links" in benchmark.faults[0]
