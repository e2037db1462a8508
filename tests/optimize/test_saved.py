"""A run folder can be read back whole, and says when it can't."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import Question
from optimize.errors import RunError
from optimize.passages import PassageFile, read_passages
from optimize.run import PASSAGES, QUESTIONS, open_run, read_header
from optimize.saved import question_as_kept, read_run
from retrieval import Passage
from tests.optimize.saved_runs import answered, question, saved


def test_questions_come_back_to_the_last_space(tmp_path: Path) -> None:
    odd = question(1, question=" Why\u2028 not? ", kind="temporal", answers=["a", "Ä"])
    none = Question.of(id="n", question="Who?", answer=None, answerable=False)
    run = saved(tmp_path / "run", [odd, none], [answered(odd)])
    back, empty = run.questions
    assert back.toDict() == odd.toDict()
    assert empty.toDict() == none.toDict()
    assert run.left == 1
    assert [r.id for r in run.records] == ["q1"]


def test_a_run_without_its_questions_says_how_to_get_them(tmp_path: Path) -> None:
    saved(tmp_path / "run", [question(1)], [])
    (tmp_path / "run" / QUESTIONS).unlink()
    with pytest.raises(RunError, match="start the same hopsmith eval again"):
        read_run(tmp_path / "run")


def test_questions_that_were_changed_are_refused(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", [question(1)], [])
    line = json.loads((run.folder / QUESTIONS).read_text())
    (run.folder / QUESTIONS).write_text(json.dumps({**line, "answers": ["mine"]}) + "\n")
    with pytest.raises(RunError, match="is not what"):
        read_run(run.folder)


def test_new_definitions_are_noted_when_a_run_is_scored_anew(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", [question(1)], [], definitions=0)
    open_run(run.folder, run.header.model_copy(update={"definitions": 1}), run.questions)
    assert read_header(run.folder).definitions == 1


def test_passages_are_kept_once_and_a_line_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / PASSAGES
    one = Passage("1", "t", "x\u2028\ud800")
    two = Passage("2", "t", "y", metadata={"source": "a.pdf", "page": 3})
    PassageFile(path).keep([one, one])
    with path.open("ab") as file:
        file.write(b'{"id": "2", "ti')
    again = PassageFile(path)
    again.keep([one, two])
    assert [(p.id, p.text) for p in read_passages(path)] == [("1", "x\u2028\ud800"), ("2", "y")]
    assert [p.cited for p in read_passages(path)][1] == "t (a.pdf, p. 3)"


def test_what_another_system_does_not_say_is_not_known(tmp_path: Path) -> None:
    asked = question(1)
    run = saved(tmp_path / "run", [asked], [answered(asked, hops=[], ranked=[])], told=[])
    found = run.metrics(("em", "support_recall@5", "hop_recall", "lm_calls", "passages_read"))
    assert found["em"].value == 1.0
    assert {n: s.value for n, s in found.items() if n != "em"} == dict.fromkeys(
        ("support_recall@5", "hop_recall", "lm_calls", "passages_read")
    )
    assert all(found[n].missing == 1 for n in ("lm_calls", "hop_recall"))


def test_question_as_kept_takes_a_line_without_meta() -> None:
    line = {"id": "1", "question": "q", "answer": "a", "answers": ["a"], "supporting": []}
    back = question_as_kept({**line, "kind": "single", "answerable": True, "hops": []})
    assert (back.answers, back.meta) == (("a",), {})
