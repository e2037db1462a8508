"""What a server keeps when it is told to, and how the next compile learns from it."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.own import read_questions
from hopsmith.cli import app, guarded
from hopsmith.errors import HopsmithError
from hopsmith.serving.journal import (
    FeedbackRecord,
    Journal,
    RequestRecord,
    now,
    redaction,
    request_record,
)
from hopsmith.serving.learning import extend, harvest
from programs.evidence import Evidence
from retrieval import Passage


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(folder.glob(f"{kind}-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def record(n: int = 0, question: str = "Where?", answer: str | None = "Tamsin") -> RequestRecord:
    evidence = Evidence()
    passages = [Passage("p1", "Norvale", "About nothing."), Passage("p2", "Ada", "Ada Quill did.")]
    first = evidence.add(role="planner", query="Who?", passages=passages, answer="Ada Quill")
    evidence.add(role="planner", query="Where?", passages=passages, parent=first.id, answer="X")
    evidence.add(role="planner", query="Else?", passages=passages, parent=first.id)
    return request_record(
        id=f"q-{n:016x}",
        question=question,
        answer=answer,
        evidence=evidence,
        pipeline="main",
        fingerprint="f",
        stop_reason="answered",
    )


def thumb(n: int, thumb: str, **more: Any) -> FeedbackRecord:
    return FeedbackRecord(id=f"q-{n:016x}", time=now(), thumb=thumb, **more)  # type: ignore[arg-type]


def test_nothing_is_kept_unless_asked(serve: Any) -> None:
    live = serve()
    told = live.ask().json()
    refused = live.client.post("/v1/feedback", json={"id": told["id"], "thumb": "up"})
    assert (refused.status_code, "--log-dir" in refused.json()["detail"]) == (403, True)
    assert live.client.get("/v1/pipelines").json()["feedback"] is False
    assert list(Path().iterdir()) == []


def test_requests_and_thumbs_over_http(serve: Any, journal_folder: Path) -> None:
    live = serve(journal=Journal(journal_folder))
    told = live.ask().json()
    body = {"id": told["id"], "thumb": "down", "answer": "Orl", "comment": "no"}
    kept = live.client.post("/v1/feedback", json=body)
    assert (kept.status_code, kept.json()["feedback"]) == (202, True)
    (request,) = lines(journal_folder, "requests")
    assert (request["id"], request["question"]) == (told["id"], "Where was its founder born?")
    assert request["answer"] == "Tamsin"
    assert request["fingerprint"] == told["pipeline"]["fingerprint"]
    assert [h["answer"] for h in request["hops"]] == ["Ada Quill", "Tamsin"]
    (feedback,) = lines(journal_folder, "feedback")
    assert {k: feedback[k] for k in body} == body
    assert 'hopsmith_feedback_total{thumb="down"} 1.0' in live.client.get("/metrics").text


@pytest.mark.parametrize(
    "body", [{}, {"id": "x", "thumb": "up"}, {"id": "q-" + "0" * 16, "thumb": "sideways"}]
)
def test_bad_feedback_is_refused(serve: Any, journal_folder: Path, body: Any) -> None:
    live = serve(journal=Journal(journal_folder))
    assert live.client.post("/v1/feedback", json=body).status_code == 422


def test_a_share_is_sampled_and_a_thumb_keeps_its_request(journal_folder: Path) -> None:
    journal = Journal(journal_folder, sample=0.0)
    for n in range(5):
        journal.request(record(n))
    assert lines(journal_folder, "requests") == []
    assert journal.feedback(thumb(3, "up")) == (True, True)
    assert journal.feedback(thumb(3, "down")) == (True, True)
    assert [r["id"] for r in lines(journal_folder, "requests")] == ["q-" + f"{3:016x}"]
    assert journal.feedback(thumb(99, "up")) == (True, False)


def test_the_redaction_hook_decides_what_is_kept(journal_folder: Path) -> None:
    def hook(row: dict[str, Any]) -> dict[str, Any] | None:
        if "secret" in row.get("question", ""):
            return None
        return {**row, "question": row["question"].replace("Ada", "[name]")}

    journal = Journal(journal_folder, redact=hook)
    journal.request(record(1, "Where is Ada?"))
    journal.request(record(2, "A secret?"))
    assert [r["question"] for r in lines(journal_folder, "requests")] == ["Where is [name]?"]


def test_a_hook_that_fails_keeps_nothing(journal_folder: Path) -> None:
    journal = Journal(journal_folder, redact=lambda row: row["no such"])  # type: ignore[no-any-return]
    journal.request(record(1))
    assert lines(journal_folder, "requests") == []
    assert "KeyError" in (journal.fault or "")
    assert journal.lost == 1


def test_hooks_by_name() -> None:
    assert redaction(None) is None
    assert redaction("json:dumps") is json.dumps
    for name in ("json", "json:none", "no_such_module:f", "json:__doc__"):
        with pytest.raises(HopsmithError, match="--redact"):
            redaction(name)


def test_lines_of_many_threads_stay_whole(journal_folder: Path) -> None:
    journals = [Journal(journal_folder) for _ in range(3)]

    def write(journal: Journal, base: int) -> None:
        for n in range(30):
            journal.request(record(base + n, "x" * 3000))

    threads = [
        threading.Thread(target=write, args=(journal, 1000 * i))
        for i, journal in enumerate(journals)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({r["id"] for r in lines(journal_folder, "requests")}) == 90


def test_a_folder_that_can_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HopsmithError, match="--log-dir"):
        Journal(tmp_path / "file")


@pytest.fixture
def kept(journal_folder: Path) -> Journal:
    return Journal(journal_folder)


def only(journal: Journal) -> dict[str, Any]:
    (line,) = harvest(journal.folder).lines
    return line


def test_a_thumb_up_makes_a_question_with_its_chain(kept: Journal, tmp_path: Path) -> None:
    kept.request(record(1))
    kept.feedback(thumb(1, "up"))
    assert extend(tmp_path / "q.jsonl", kept.folder).count("review") == 1
    (question,) = read_questions(tmp_path / "q.jsonl")
    assert (question.question, question.answer) == ("Where?", "Tamsin")
    assert [(h.question, h.answer, h.passage) for h in question.hops] == [
        ("Who?", "Ada Quill", "p2"),
        ("Where?", "X", "p1"),
    ]
    assert question.meta["thumbs"] == {"up": 1, "down": 0}


def test_a_correction_is_the_answer_and_its_chain_is_not_trusted(kept: Journal) -> None:
    kept.request(record(1))
    kept.feedback(thumb(1, "down", answer=" Orl ", comment="moved in 1990"))
    line = only(kept)
    assert (line["answer"], line["status"], line.get("hops")) == ("Orl", "review", None)
    assert line["meta"]["answered"] == "Tamsin"
    assert line["meta"]["comment"] == "moved in 1990"


def test_a_wrong_answer_without_the_right_one_is_left_out_of_training(
    kept: Journal, tmp_path: Path
) -> None:
    kept.request(record(1))
    kept.feedback(thumb(1, "down"))
    kept.request(record(2, "When?", "1911"))
    kept.feedback(thumb(2, "up"))
    made = extend(tmp_path / "q.jsonl", kept.folder)
    assert (made.count("review"), made.count("rejected")) == (1, 1)
    assert [q.question for q in read_questions(tmp_path / "q.jsonl")] == ["When?"]


def test_no_answer_that_was_right_is_unanswerable(kept: Journal) -> None:
    kept.request(record(1, answer=None))
    kept.feedback(thumb(1, "up"))
    assert (only(kept)["answerable"], only(kept)["answer"]) == (False, None)


def test_one_question_asked_by_many_is_one_line_by_majority(kept: Journal) -> None:
    for n, (question, answer) in enumerate([("Where?", "A"), ("where", "B"), ("WHERE ?", "C")]):
        kept.request(record(n, question, answer))
    kept.feedback(thumb(0, "up"))
    kept.feedback(thumb(1, "up"))
    kept.feedback(thumb(2, "down"))
    assert (only(kept)["answer"], only(kept)["meta"]["thumbs"]) == ("B", {"up": 2, "down": 1})


def test_a_changed_mind_counts_as_it_ended(kept: Journal) -> None:
    kept.request(record(1))
    kept.feedback(thumb(1, "up"))
    kept.feedback(thumb(1, "down"))
    assert only(kept)["status"] == "rejected"


def test_unrated_ones_and_broken_lines_are_counted(kept: Journal) -> None:
    kept.request(record(1))
    kept.feedback(thumb(9, "up"))
    (path,) = kept.folder.glob("requests-*.jsonl")
    path.write_text(path.read_text() + '{"id": "q-1", "tim')
    made = harvest(kept.folder)
    assert (made.lines, made.unrated, made.unreadable, made.orphans) == ([], 1, 1, 1)
    (line,) = harvest(kept.folder, unrated=True).lines
    assert line["status"] == "rejected"


def test_reviewed_lines_stay_and_only_new_questions_are_added(
    kept: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q.jsonl"
    reviewed = '{"id": "mine", "question": "where", "answer": "Orl", "status": "accepted"}\n'
    out.write_text(reviewed)
    for n, question in enumerate(["Where?", "When?"]):
        kept.request(record(n, question))
        kept.feedback(thumb(n, "up"))

    def run(*words: Any) -> int:
        before, sys.argv = sys.argv, ["hopsmith", "questions", *map(str, words)]
        try:
            return guarded(app)
        finally:
            sys.argv = before

    assert run("--from-log", kept.folder, "--out", out, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["review"], told["known"]) == (1, 1)
    assert out.read_text().startswith(reviewed)
    assert run("--from-log", kept.folder, "--out", out) == 0
    assert "0 to review" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 2
    assert run("--from-log", tmp_path / "none", "--out", out) == 2
    assert "hopsmith serve --log-dir" in capsys.readouterr().err
    assert run("--out", out) == 2
    assert "--from-log" in capsys.readouterr().err


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    asked=st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip),
            st.none() | st.text(st.characters(exclude_categories=("Cs",)), min_size=1),
            st.sampled_from(["up", "down", None]),
            st.none() | st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
        ),
        max_size=6,
    )
)
def test_whatever_was_asked_the_file_can_be_read(
    asked: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("wild")
    journal = Journal(folder / "log")
    for n, (question, answer, judged, correction) in enumerate(asked):
        answer = answer if answer is None or answer.strip() else "a"
        journal.request(record(n, question, answer))
        if judged:
            journal.feedback(thumb(n, judged, answer=correction))
    made = extend(folder / "q.jsonl", journal.folder)
    if made.count("review"):
        assert len(read_questions(folder / "q.jsonl")) == made.count("review")
