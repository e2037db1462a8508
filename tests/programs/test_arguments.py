"""Arguments of a method's constructor: unknown ones and those of the wrong kind name the mend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import Benchmark
from programs import ProgramError, build, method, methods
from programs.arguments import as_given, check_arguments
from programs.graph import Graph
from programs.hiq import HiQ
from programs.knowledge import Knowledge
from programs.router import Router
from programs.single_shot import SingleShot


def taken(name: str) -> list[str]:
    return [as_given(parameter) for parameter in method(name).takes().values()]


def test_a_method_tells_its_arguments_with_their_defaults() -> None:
    assert taken("decompose") == ["synthesis=facts"]
    assert taken("router") == ["coverage=0.5"]
    assert taken("par2") == ["summary=false"]
    assert taken("single_shot") == taken("graph") == taken("golden") == []
    assert "verify=false" in taken("hiq_unverified")
    assert "threshold=null" in taken("hiq")


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_method_takes_the_defaults_that_it_tells(
    name: str, words: Any, world: Benchmark, knowledge_of: Callable[[Benchmark], Knowledge]
) -> None:
    given = {argument: p.default for argument, p in method(name).takes().items()}
    knowledge = knowledge_of(world)
    plain = build(name, words, knowledge=knowledge)
    assert build(name, words, knowledge=knowledge, **given).arguments == plain.arguments


@pytest.mark.parametrize("argument", ["foo", "budget", "name", "self"])
def test_an_unknown_argument_is_answered_with_those_there_are(argument: str, words: Any) -> None:
    mend = rf"method decompose takes no argument '{argument}'; .*: synthesis=facts$"
    with pytest.raises(ProgramError, match=mend):
        check_arguments("decompose", method("decompose"), {argument: 1})
    with pytest.raises(ProgramError, match=r"takes no argument 'foo'; .*: trigger=unresolved, "):
        build("hiq", words, foo=1)


def test_a_part_given_as_text_is_refused(words: Any) -> None:
    for make in (
        lambda: build("router", words, agentic="ircot"),
        lambda: Router(words, agentic="ircot"),  # type: ignore[arg-type]
        lambda: Graph(words, knowledge=object(), agentic="ircot"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ProgramError, match=r"agentic is a part, .* got 'ircot'"):
            make()


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("router", "coverage", "abc"),
        ("router", "coverage", True),
        ("router", "coverage", float("nan")),
        ("router", "coverage", None),
        ("hiq_threshold", "threshold", "abc"),
        ("hiq_threshold", "expand_cost", None),
        ("hiq_threshold", "fail_cost", "4"),
    ],
)
def test_what_is_no_number_is_refused_by_name(
    name: str, argument: str, value: Any, words: Any
) -> None:
    with pytest.raises(ProgramError, match=f"{argument} is a "):
        build(name, words, **{argument: value})


def test_a_word_is_no_yes(words: Any) -> None:
    with pytest.raises(ProgramError, match="summary is true or false, got 'abc'"):
        build("par2", words, summary="abc")


def test_own_methods_tell_the_arguments_of_their_constructors() -> None:
    class Plain(SingleShot):
        pass

    class Open(SingleShot):
        def __init__(self, retriever: Any, budget: Any = None, **more: Any) -> None:
            super().__init__(retriever, budget)

    class Wider(HiQ):
        def __init__(
            self, retriever: Any, budget: Any = None, wide: int = 2, **control: Any
        ) -> None:
            super().__init__(retriever, budget, **control)

    assert Plain.takes() == {}
    assert list(map(as_given, Open.takes().values())) == ["any other"]
    assert {"wide", *HiQ.takes()} == set(Wider.takes())
