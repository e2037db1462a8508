"""Run folders made by hand, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import GoldHop, Question, questions_hash
from metrics import DEFINITION_VERSION
from optimize.passages import PassageFile
from optimize.rows import HopRow, PredictionRow, RunHeader
from optimize.run import PASSAGES, ROWS, open_run, write_text
from optimize.saved import SavedRun, read_run
from programs import Account
from retrieval import Passage


def question(n: int, hops: int = 2, **more: Any) -> Question:
    gold = [
        GoldHop(
            f"q{n}p{h}", f"What of {n} is {{answer_{h}}}?" if h else f"Who made {n}?", f"e{n}{h}"
        )
        for h in range(hops)
    ]
    return Question.of(
        **{
            "id": f"q{n}",
            "question": f"What <of> {n}?",
            "answer": f"gold {n}",
            "supporting": [h.passage for h in gold],
            "hops": gold,
            **more,
        }
    )


def answered(asked: Question, right: bool = True, found: int = 2, **more: Any) -> PredictionRow:
    """A row with a hop for each of the first ``found`` gold hops, and one passage that isn't."""
    hops = [
        HopRow(
            id=n,
            role="planner",
            query=gold.question,
            refined=gold.filled([h.answer for h in asked.hops]),
            passages=[gold.passage, f"other{n}"] if n < found else [f"other{n}"],
            answer=gold.answer if n < found else None,
            status="resolved" if n < found else "unresolved",
        )
        for n, gold in enumerate(asked.hops)
    ]
    given: dict[str, Any] = {
        "id": asked.id,
        "fingerprint": "f",
        "answer": asked.answer if right else "something else",
        "stop_reason": "answered",
        "hops": hops,
        "ranked": list(dict.fromkeys(p for hop in hops for p in hop.passages)),
        "usage": {"resolver": Account(lm_calls=len(hops), prompt_tokens=90).to_json()},
        "seconds": 0.5,
    }
    return PredictionRow(**{**given, **more})


def saved(
    folder: Path, questions: Sequence[Question], rows: Sequence[PredictionRow], **header: Any
) -> SavedRun:
    about = RunHeader(
        **{
            "method": folder.name,
            "benchmark": "own",
            "split": "dev",
            "questions": len(questions),
            "questions_hash": questions_hash(questions),
            "fingerprint": "f",
            "identity": {"lms": {"default": {"name": "openai/small"}}},
            "corpus_hash": "c",
            "definitions": DEFINITION_VERSION,
            **header,
        }
    )
    open_run(folder, about, questions)
    marked = [row.model_copy(update={"fingerprint": about.fingerprint}) for row in rows]
    write_text(folder / ROWS, "".join(row.model_dump_json() + "\n" for row in marked))
    texts = {p for q in questions for p in q.supporting}
    PassageFile(folder / PASSAGES).keep(
        Passage(p, f"title of {p}", f"text of {p} </script><b>") for p in sorted(texts)
    )
    return read_run(folder)
