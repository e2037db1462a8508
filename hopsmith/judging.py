"""Judging a run: verdicts beside its rows, its metrics anew, and how judge and EM agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopsmith.lm import make_lm
from hopsmith.progress import console
from hopsmith.running import SURE
from hopsmith.session import session
from hopsmith.settings import Settings
from metrics import DEFAULT
from optimize.judge import VERDICTS, Agreement, Judge, agreement, write_judged
from optimize.run import write_metrics
from optimize.saved import SavedRun, read_run


@dataclass(frozen=True)
class Judged:
    """A judged run."""

    run: SavedRun
    agreement: Agreement | None
    judge: str
    failed: int
    """Answers that got no verdict."""

    def to_json(self) -> dict[str, Any]:
        found = self.run.metrics(("correctness",))["correctness"]
        return {
            "judge": self.judge,
            "correctness": found.value,
            "n": found.n,
            "failed": self.failed,
            "agreement": self.agreement and self.agreement.to_json(),
        }


def judge_run(run: SavedRun, settings: Settings, name: str) -> Judged:
    """Judge what isn't judged yet, with the LM of ``name``; the folder's metrics hold
    ``correctness`` afterwards."""
    judge_settings = settings.model_copy(update={"lm": name})
    with session(judge_settings) as here:
        judge = Judge(make_lm(judge_settings), run.folder / VERDICTS)
        with console.status("") as status:
            verdicts = judge.judge(
                run.records, lambda done, total: status.update(f"judged {done} of {total}")
            )
        write_judged(run.folder, here.lm.model, verdicts, judge.failed)
    done = read_run(run.folder)
    write_metrics(done.folder, done.metrics((*DEFAULT, "correctness"), (*SURE, "correctness")))
    return Judged(done, agreement(done.records, verdicts), here.lm.model, judge.failed)
