"""Demonstrations bounded by tokens, without what dev and test questions are about."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from optimize.demos import tidy
from programs import build
from retrieval import Passage
from signatures import Context, render

SHOWN = Passage("shown", "Norvale", "Norvale Systems was founded by Ada Quill.")
SECRET = Passage("secret", "Quill", "Ada Quill was born in Tamsin, a town on the coast.")


def shown(*passages: Passage) -> Context:
    return render(passages, max_passages=5, max_tokens=500)


def demos(words: Any, *made: dict[str, Any], max_tokens: int = 900) -> list[Any]:
    program = build("single_shot", words)
    program.final.demos = [dspy.Example(question="Who?", **fields) for fields in made]
    tidy(program, hidden={"secret": SECRET.text}, max_tokens=max_tokens)
    return list(program.final.demos)


def test_a_hidden_passage_is_cut_out_of_a_context(words: Any) -> None:
    (kept,) = demos(words, {"context": shown(SHOWN, SECRET), "answer": "Ada Quill"})
    assert SHOWN.text in kept.context
    assert SECRET.text not in kept.context


@pytest.mark.parametrize(
    "fields",
    [
        {"context": shown(SECRET), "answer": "Tamsin"},
        {"context": shown(SHOWN, SECRET), "answer": "Tamsin"},
        {"context": str(shown(SHOWN, SECRET)), "answer": "Ada Quill"},
        {"steps": f"print(search('Quill'))\n[{{'text': '{SECRET.text}'}}]", "answer": "Tamsin"},
    ],
)
def test_a_demonstration_that_rests_on_it_or_quotes_it_as_text_is_dropped(
    words: Any, fields: dict[str, Any]
) -> None:
    assert demos(words, fields) == []


def test_they_are_kept_in_order_while_they_fit(words: Any) -> None:
    one = {"context": shown(SHOWN), "answer": "Ada Quill"}
    assert len(demos(words, one, one, one, max_tokens=70)) == 2
    assert demos(words, one, max_tokens=5) == []


def test_texts_of_hidden_passages_come_from_the_corpus(world: Benchmark, words: Any) -> None:
    from types import SimpleNamespace

    from optimize.stages import _hidden

    of = {p.id: p.text for p in world.corpus}
    for benchmark in (world, SimpleNamespace(corpus=(), questions=world.questions)):
        work: Any = SimpleNamespace(
            benchmark=benchmark,
            program=SimpleNamespace(retriever=Listed(world)),
            questions=lambda split: world.questions[split],
        )
        found = _hidden(work)
        assert found
        assert all(text == of[name] for name, text in found.items())


class Listed:
    def __init__(self, world: Benchmark) -> None:
        self.world = world

    def corpus(self) -> Any:
        return iter(self.world.corpus)
