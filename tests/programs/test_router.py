"""router: the kind of question decides the part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from optimize.export import build_part, part_of
from optimize.knobs import at_point, space
from optimize.routes import collapsed, route_line, route_shares
from optimize.rows import PredictionRow
from programs import HopBudget, ProgramError, build, fingerprint
from programs.knowledge import Knowledge
from programs.router import Router


def ask(program: Any, adapter: Any, question: str) -> dspy.Prediction:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def kinds(kind: str) -> ScriptedAdapter:
    """Says what kind every question is; answers "read" at every other step."""

    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {"kind": kind, "done": True, "answer": "read", "answers": [], "follow": []}
        outputs = dict.fromkeys(signature.output_fields)
        given = {name: known[name] for name in outputs if name in known}
        if "sub_questions" in outputs:
            given |= {"kind": "comparison", "sub_questions": ["Who is Ada?", "Who is Ida?"]}
        return {**outputs, **given}

    return ScriptedAdapter(script)


@pytest.mark.parametrize(
    ("kind", "route", "calls"),
    [
        ("none", "direct", 2),
        ("single", "single_shot", 2),
        ("comparison", "decompose", 5),
        ("bridge", "agentic", 2),
    ],
)
def test_each_kind_has_its_part(words: Any, kind: str, route: str, calls: int) -> None:
    prediction = ask(Router(words), kinds(kind), "Who is older, Ada or Ida?")
    assert (prediction.route, prediction.question_kind) == (route, kind)
    assert prediction.answer == "read"
    assert prediction.usage.total.lm_calls == calls
    first, *rest = prediction.evidence.hops
    assert first.note.startswith(f"{kind} → {route}")
    assert all(hop.parent is not None for hop in rest)


def test_a_comparisons_sub_questions_are_one_search(words: Any) -> None:
    ask(Router(words), kinds("comparison"), "Who is older, Ada or Ida?")
    assert words.queries == ["Who is Ada?", "Who is Ida?"]


def test_a_bridge_goes_to_the_graph_where_the_entitys_type_is_covered(
    world: Benchmark, words: Any, knowledge_of: Callable[[Benchmark], Knowledge]
) -> None:
    knowledge = knowledge_of(world)
    question = next(q for q in world.questions["dev"] if q.kind == "bridge")
    oracle = OracleAdapter([question])
    covered = ask(Router(words, knowledge=knowledge), oracle, question.question)
    assert (covered.route, covered.answer) == ("graph", question.answer)
    assert {h.source for h in covered.evidence.hops[1:]} == {"graph"}
    unknown = ask(Router(words, knowledge=knowledge), kinds("bridge"), "Who is the mayor of it?")
    assert unknown.route == "agentic"
    assert "names no entity" in unknown.evidence.hops[0].note


def test_a_type_that_is_not_covered_goes_to_agentic(
    world: Benchmark, words: Any, knowledge_of: Callable[[Benchmark], Knowledge]
) -> None:
    stale = [p.id for p in world.corpus[:-1]]
    thin = Knowledge(knowledge_of(world).store, stale)
    kept = next(iter(thin.edges([world.corpus[-1].title.casefold()])))
    question = f"Who knows {kept.object if kept.object_type != 'year' else kept.subject}?"
    prediction = ask(Router(words, knowledge=thin, coverage=1.0), kinds("bridge"), question)
    assert prediction.route in ("agentic", "graph")
    none = {t: c for t, c in thin.coverage.items() if not c.led_on}
    name = next(
        t.object for t in thin.edges([world.corpus[-1].title.casefold()]) if t.object_type in none
    )
    prediction = ask(Router(words, knowledge=thin), kinds("bridge"), f"Who knows {name}?")
    assert prediction.route == "agentic"
    assert "not covered" in prediction.evidence.hops[0].note


def test_a_question_that_cant_be_classified_is_a_bridge(words: Any) -> None:
    def script(
        signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        if set(signature.output_fields) == {"kind"}:
            return None
        return {"done": True, "answer": "read", "next_query": None}

    prediction = ask(Router(words), ScriptedAdapter(script), "Who?")
    assert prediction.route == "agentic"
    assert prediction.evidence.errors == 1


def test_with_one_call_left_it_reads_once(words: Any) -> None:
    prediction = ask(Router(words, HopBudget(lm_calls=1)), kinds("bridge"), "Who is Ada?")
    assert (prediction.route, prediction.answer) == ("single_shot", "read")
    assert prediction.usage.total.lm_calls == 1


def test_knobs_of_parts_are_named_by_their_part(
    world: Benchmark, words: Any, knowledge_of: Callable[[Benchmark], Knowledge]
) -> None:
    program = Router(words, knowledge=knowledge_of(world))
    knobs = space(program)
    assert {"think.router", "agentic.hops", "graph.hops", "graph.agentic.hops"} <= set(knobs)
    point = {name: knob.values[-1] for name, knob in knobs.items()}
    moved = at_point(program, knobs, point)
    assert isinstance(moved, Router)
    assert moved.agentic.budget.hops == point["agentic.hops"]
    assert program.agentic.budget != moved.agentic.budget


def test_a_compiled_part_survives_the_round_trip(
    world: Benchmark, words: Any, knowledge_of: Callable[[Benchmark], Knowledge]
) -> None:
    knowledge = knowledge_of(world)
    tuned = build("self_ask", words, HopBudget(hops=2))
    tuned.predictors()[0].demos = [dspy.Example(question="q", answer="a")]
    tuned._compiled = True
    program = Router(words, knowledge=knowledge, agentic=tuned, coverage=0.25)
    other = build_part(part_of(program), words, knowledge)
    other.load_state(program.dump_state())
    assert fingerprint(other) == fingerprint(program)
    assert other.parts["agentic"].budget.hops == 2
    assert other.parts["agentic"].predictors()[0].demos


def test_a_graph_part_wants_its_graph(words: Any) -> None:
    with pytest.raises(ProgramError, match="knowledge"):
        Router(words, graph=build("direct", words))
    with pytest.raises(ProgramError, match="coverage"):
        Router(words, coverage=2)


def rows(*routes: str) -> list[PredictionRow]:
    return [
        PredictionRow(
            id=str(n), fingerprint="f", answer="a", stop_reason="answered", extra={"route": r}
        )
        for n, r in enumerate(routes)
    ]


def test_the_shares_of_routes_are_told_and_a_collapse_named() -> None:
    mixed = rows("agentic", "agentic", "agentic", "direct")
    assert route_shares(mixed) == {"agentic": 0.75, "direct": 0.25}
    assert route_line(mixed) == "routes: agentic 75%, direct 25%"
    one = rows(*["graph"] * 20)
    assert collapsed(route_shares(one), 20) == "graph"
    assert "collapsed to one route, graph" in str(route_line(one))
    assert collapsed(route_shares(one[:5]), 5) is None
    assert route_shares([]) == {}
    assert route_line([]) is None


def test_the_oracle_sends_each_kind_its_way(
    chains: Benchmark,
    rare_words: Callable[[Benchmark], Any],
    knowledge_of: Callable[[Benchmark], Knowledge],
) -> None:
    program = Router(rare_words(chains), knowledge=knowledge_of(chains))
    asked = chains.questions["dev"]
    ways = {"single": "single_shot", "comparison": "decompose"}
    for question in asked:
        prediction = ask(program, OracleAdapter(asked), question.question)
        assert prediction.route == ways.get(question.kind, "graph")
