"""What DSPy's optimizers need around them: LM calls outside any question metered, prints kept away
from stdout, and an adapter for LMs that write prompts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from benchmarks.scripted import NoEngine
from optimize.errors import OptimizeError
from programs import MeteredAdapter, current


@dataclass(frozen=True)
class PromptLMs:
    """LMs of a prompts stage besides the one that answers; None means that one."""

    teacher: dspy.LM | None = None
    """Answers where demonstrations are made."""
    prompt: dspy.LM | None = None
    """Writes instructions (MIPROv2) and rules (SIMBA)."""
    reflection: dspy.LM | None = None
    """Reads feedback and rewrites instructions (GEPA)."""

    @property
    def named(self) -> dict[str, dspy.LM]:
        """Those that there are, by role."""
        every = {"teacher": self.teacher, "prompt": self.prompt, "reflection": self.reflection}
        return {role: lm for role, lm in every.items() if lm is not None}

    def writer(self, own: dspy.LM | None, optimizer: str, flag: str) -> dspy.LM:
        """The LM that writes prompts: ``own``, else the one that answers. Raises
        ``OptimizeError`` where that one only stands for the oracle."""
        lm = own if own is not None else dspy.settings.lm
        if not can_write(lm):
            raise OptimizeError(
                f"{optimizer} needs an LM that writes prompts, which the oracle can't: give "
                f"{flag} NAME, or --prompts bootstrap"
            )
        return lm


def can_write(lm: Any) -> bool:
    """Whether an LM has an engine behind it."""
    return lm is not None and not isinstance(getattr(lm, "engine", None), NoEngine)


class ProposingAdapter(MeteredAdapter):
    """The task's adapter within a question, a JSON one outside: an answering adapter (the oracle)
    knows nothing of the signatures that optimizers ask an LM to write prompts with."""

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        proposing = self.inner if can_propose(self.inner) else dspy.JSONAdapter()
        self._proposing = MeteredAdapter(proposing)

    def __call__(
        self,
        lm: Any,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        if current() is None:
            return self._proposing(lm, lm_kwargs, signature, demos, inputs)
        return super().__call__(lm, lm_kwargs, signature, demos, inputs)


def can_propose(adapter: Any) -> bool:
    """Whether an adapter talks to an LM: DSPy's do, answering ones don't."""
    return isinstance(adapter, (dspy.ChatAdapter, dspy.JSONAdapter, dspy.XMLAdapter))


@contextlib.contextmanager
def proposing(log: Path) -> Iterator[None]:
    """Run an optimizer inside: every LM call metered, its prints (both streams) appended to
    ``log``."""
    adapter: Any = dspy.settings.adapter or dspy.JSONAdapter()
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
        dspy.context(adapter=ProposingAdapter(adapter)),
    ):
        yield
