"""Training questions from documents: only those that take both passages are offered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks.own import read_questions
from benchmarks.scripted import ScriptedAdapter, stand_in
from optimize.errors import OptimizeError
from optimize.linked import Pair, Titles, pairs
from optimize.question_writing import Written, write_questions
from retrieval import Passage

NORVALE = Passage("p1", "Norvale Systems", "Norvale Systems was founded by Ada Quill in 1911.")
ADA = Passage("p2", "Ada Quill", "Ada Quill, an engineer, was born in Tamsin.")
MILL = Passage("p3", "Tamsin Mill", "Tamsin Mill was founded in 1890.")
PAIR = Pair("bridge", NORVALE, ADA, "Ada Quill")
GOOD = {
    "question": "Where was the founder of Norvale Systems born?",
    "answer": "Tamsin",
    "first_step": "Who founded Norvale Systems?",
    "second_step": "Where was {answer_1} born?",
}
COMPARED = {
    "question": "Which was founded first, Norvale Systems or Tamsin Mill?",
    "answer": "Tamsin Mill",
    "first_step": "When was Norvale Systems founded?",
    "first_answer": "1911",
    "second_step": "When was Tamsin Mill founded?",
    "second_answer": "1890",
}

Reads = Callable[[str], str]


def needs_both(context: str) -> str:
    return "Tamsin" if "1911" in context and "born" in context else ""


def write(
    tmp_path: Path, made: dict[str, Any], reads: Reads = needs_both, pair: Pair = PAIR, n: int = 1
) -> tuple[Written, list[Any]]:
    def script(signature: Any, inputs: Any) -> Any:
        if "first_step" in signature.output_fields:
            return {name: made.get(name, "") for name in signature.output_fields}
        return {"answer": reads(str(inputs["context"]))}

    out = tmp_path / "questions.jsonl"
    with dspy.context(lm=stand_in("scripted/x"), adapter=ScriptedAdapter(script)):
        done = write_questions([pair], out, n)
    return done, [json.loads(line) for line in out.read_text().splitlines()]


def test_a_question_that_takes_both_passages_is_for_review(tmp_path: Path) -> None:
    done, (line,) = write(tmp_path, GOOD)
    assert (done.kept, line["status"]) == (1, "review")
    (question,) = read_questions(tmp_path / "questions.jsonl")
    assert question.supporting == ("p1", "p2")
    assert [h.answer for h in question.hops] == ["Ada Quill", "Tamsin"]
    assert question.hops[1].depends_on == (1,)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": ""}, "no question was found"),
        ({"question": "Where was Ada Quill born?"}, "names the link"),
        ({"question": "Is the founder of Norvale from Tamsin?"}, "contains its answer"),
        ({"second_step": "Where was she born?"}, "second step does not use"),
        ({"answer": "Rome"}, "does not state its answer"),
        ({"first_step": ""}, "a step is missing"),
    ],
)
def test_a_faulty_question_is_rejected_with_its_reason(
    tmp_path: Path, change: dict[str, str], reason: str
) -> None:
    done, (line,) = write(tmp_path, {**GOOD, **change})
    assert done.kept == 0
    assert line["status"] == "rejected"
    assert reason in line["meta"]["reason"]


def test_a_question_that_one_passage_answers_is_rejected(tmp_path: Path) -> None:
    _, (line,) = write(tmp_path, GOOD, lambda context: "Tamsin" if "born" in context else "")
    assert line["meta"]["reason"] == "the second passage alone answers it"


def test_a_question_that_its_reader_does_not_answer_is_rejected(tmp_path: Path) -> None:
    _, (line,) = write(tmp_path, GOOD, lambda context: "Rome")
    assert line["meta"]["reason"] == "a reader with both passages does not answer it so"


def test_a_comparison_names_both(tmp_path: Path) -> None:
    pair = Pair("comparison", NORVALE, MILL, "")

    def reads(context: str) -> str:
        return "Tamsin Mill" if "1911" in context and "1890" in context else ""

    _, (line,) = write(tmp_path, COMPARED, reads, pair)
    assert (line["status"], line["kind"]) == ("review", "comparison")
    _, lines = write(tmp_path / "b", {**COMPARED, "question": "Which is older?"}, reads, pair)
    assert lines[0]["meta"]["reason"] == "it does not name what it compares"


def test_a_file_is_added_to_and_its_pairs_are_not_asked_again(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    path = tmp_path / "questions.jsonl"
    reviewed = path.read_text().replace('"review"', '"rejected"')
    path.write_text(reviewed + '{"torn')
    done, lines = write(tmp_path, GOOD)
    assert (done.known, done.kept, done.exhausted) == (1, 0, True)
    assert [line["status"] for line in lines] == ["rejected"]


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text("not json\n")
    with pytest.raises(OptimizeError, match=r"questions\.jsonl:1 is no JSON"):
        write(tmp_path, GOOD)


def test_a_title_named_in_a_text_links_two_passages() -> None:
    titles = Titles([NORVALE, ADA, MILL])
    assert titles.named(NORVALE) == [ADA]
    assert titles.named(ADA) == []


def test_pairs_come_in_an_order_of_the_seed(world: Any, words: Any) -> None:
    first, again, other = (
        [p.key for p in pairs(world.corpus, words, ("bridge", "comparison"), seed)]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert {key.partition(":")[0] for key in first} == {"bridge", "comparison"}
    assert len(first) == len(set(first))


def test_gold_bridges_of_a_world_are_among_its_links(world: Any, words: Any) -> None:
    known = {frozenset((p.first.id, p.second.id)) for p in pairs(world.corpus, words, ("bridge",))}
    gold = [
        frozenset(q.supporting)
        for questions in world.questions.values()
        for q in questions
        if q.kind == "bridge" and len(q.supporting) == 2
    ]
    assert gold
    assert sum(pair in known for pair in gold) >= len(gold) / 4
