"""A judge: asked only where it is needed, once an answer, and shown beside EM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks.scripted import ScriptedAdapter, stand_in
from metrics.record import Record
from optimize.judge import Judge, agreement, read_judged, write_judged


def record(id: str, answer: str | None, **more: Any) -> Record:
    known = {"question": "Who?", "answers": ("Ada Quill",), **more}
    return Record(id=id, answer=answer, **known)


RECORDS = [
    record("exact", "ada quill"),
    record("none", None),
    record("same", "Mrs Ada Quill of Norvale"),
    record("other", "Ben"),
    record("no gold", "Ben", answerable=False, answers=()),
]


class Asked:
    """A scripted judge that counts."""

    def __init__(self, fails: bool = False) -> None:
        self.answers: list[str] = []
        self.fails = fails

    def __call__(self, signature: Any, inputs: Any) -> Any:
        self.answers.append(inputs["answer"])
        return None if self.fails else {"correct": "Ada" in inputs["answer"]}


def judge(asked: Asked, path: Path | None) -> tuple[Judge, dict[str, bool]]:
    made = Judge(stand_in("scripted/judge"), path)
    with dspy.context(lm=stand_in("scripted/judge"), adapter=ScriptedAdapter(asked)):
        return made, made.judge(RECORDS)


def test_only_what_strings_leave_open_is_asked(tmp_path: Path) -> None:
    asked = Asked()
    _, verdicts = judge(asked, tmp_path / "v.jsonl")
    assert verdicts == {"exact": True, "none": False, "same": True, "other": False}
    assert sorted(asked.answers) == ["Ben", "Mrs Ada Quill of Norvale"]


def test_verdicts_are_kept_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(Asked(), path)
    with path.open("ab") as file:
        file.write(b'{"key": "torn')
    again = Asked()
    _, verdicts = judge(again, path)
    assert not again.answers
    assert verdicts["same"]


def test_an_answer_without_a_verdict_stays_unjudged(tmp_path: Path) -> None:
    made, verdicts = judge(Asked(fails=True), tmp_path / "v.jsonl")
    assert set(verdicts) == {"exact", "none"}
    assert made.failed == 2


def test_agreement_with_em() -> None:
    found = agreement(RECORDS, {"exact": True, "none": False, "same": True, "other": False})
    assert found is not None
    assert (found.n, found.judged, found.em, found.same) == (4, 0.5, 0.25, 0.75)
    assert found.kappa == pytest.approx(0.5)
    assert (found.judge_alone, found.em_alone) == (1, 0)


def test_judged_runs_have_correctness(tmp_path: Path) -> None:
    write_judged(tmp_path, "judge", {"a": True}, 0)
    assert read_judged(tmp_path) == {"a": True}
    assert read_judged(tmp_path / "nowhere") == {}
