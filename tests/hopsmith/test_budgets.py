"""``--budget``: a role that nobody has is refused, a bound that nobody reads is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hopsmith.budgets import check_budget
from programs import HopBudget, ProgramError, build
from tests.hopsmith.test_cli import one_line, run


def of(name: str, words: Any, text: str) -> Any:
    program = build(name, words)
    return program.with_budget(HopBudget.parse(text, program.budget))


def test_a_role_that_does_not_ask_is_refused_with_those_that_do(words: Any) -> None:
    mend = "think=plannr: no step of decompose asks .*; there are planner, resolver, synthesizer, "
    with pytest.raises(ProgramError, match=mend):
        check_budget(of("decompose", words, "think=plannr+planner"))


def test_a_bound_that_is_not_read_is_told_in_a_line(
    words: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    check_budget(of("single_shot", words, "hops=1,depth=2,passages=3"))
    line = one_line(capsys.readouterr().err)
    assert "--budget depth, hops changes nothing: single_shot reads context_passages, " in line


def test_a_budget_of_several_methods_may_be_for_one_of_them(
    words: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "hops=1,think=planner"
    check_budget(of("ircot", words, text), of("decompose", words, text))
    assert capsys.readouterr().err == ""
    check_budget(*(of(name, words, "depth=2") for name in ("ircot", "decompose")))
    assert "--budget depth changes nothing: ircot and" in one_line(capsys.readouterr().err)
    with pytest.raises(ProgramError, match="no step of ircot and direct asks in that role"):
        check_budget(of("ircot", words, text), of("direct", words, text))


@pytest.mark.parametrize(
    "command", [("eval", "--method", "single_shot"), ("compare", "--methods", "single_shot")]
)
def test_commands_check_the_budget_before_they_ask(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(
        capsys,
        *(*command, "--benchmark", "synthetic:30,40", "--lm", "oracle", "--out", tmp_path / "run"),
        *("--budget", "think=plannr"),
    )
    assert (code, out) == (2, "")
    assert "no step of single_shot asks in that role; there are writer" in one_line(err)
    assert not (tmp_path / "run").exists()
