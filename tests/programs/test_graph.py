"""graph: edges for the bridge hops, text where they end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, ProgramError, build, fingerprint
from programs.graph import Graph
from programs.knowledge import Knowledge, Walk
from programs.knowledge.store import GraphStore
from retrieval import Passage
from signatures import Triple

PASSAGES = [
    Passage("p1", "Norvale", "Norvale was founded by Ada Quill."),
    Passage("p2", "Ada Quill", "Ada Quill was born in Tamsin. She plays the flute."),
    Passage("p3", "Tamsin", "Tamsin is a city."),
    Passage("p4", "Volmer", "Volmer is a firm that Ada Quill founded later."),
]
TRIPLES = {
    "p1": [Triple("Norvale", "founder", "Ada Quill", "p1", "company", "person")],
    "p2": [Triple("Ada Quill", "born in", "Tamsin", "p2", "person", "city")],
    "p4": [Triple("Volmer", "founder", "Ada Quill", "p4", "company", "person")],
}
QUESTION = "In which city was the founder of Norvale born?"
SOURCE = "the answer stands on this edge"


@pytest.fixture
def knowledge(tmp_path: Path) -> Knowledge:
    store = GraphStore(tmp_path / "graph.sqlite", create=True)
    store.sync(PASSAGES, "corpus")
    store.write("given", TRIPLES)
    return Knowledge(store)


@pytest.fixture
def retriever(words: Any) -> Any:
    return type(words)(PASSAGES)


def ask(program: Any, script: Any, question: str = QUESTION) -> dspy.Prediction:
    adapter = script if isinstance(script, OracleAdapter) else ScriptedAdapter(script)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


class Follower:
    """Follows the edges whose lines hold one of these words, answers when told to; the controller
    is done at once. Keeps what the walker was shown."""

    def __init__(self, *steps: tuple[str, str | None], look_up: str | None = None) -> None:
        self.steps = list(steps)
        self.look_up = look_up
        self.shown: list[str] = []

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if "follow" not in signature.output_fields:
            return {"done": True, "answer": "read", "next_query": None}
        self.shown.append(inputs["edges"])
        wanted, answer = self.steps.pop(0) if self.steps else ("nothing", None)
        lines = inputs["edges"].lines
        follow = [n for n, line in enumerate(lines, 1) if wanted in line]
        return {"follow": follow, "answer": answer, "look_up": self.look_up}


def test_an_answer_is_read_off_an_edge_without_a_search(
    retriever: Any, knowledge: Knowledge
) -> None:
    script = Follower(("Norvale | founder", None), ("born in", "Tamsin"))
    prediction = ask(Graph(retriever, knowledge=knowledge), script)
    assert (prediction.answer, prediction.stop_reason) == ("Tamsin", "answered")
    assert retriever.queries == []
    assert prediction.usage.total.lm_calls == 2
    first, second = prediction.evidence.hops
    assert [(h.source, h.status, h.answer) for h in (first, second)] == [
        ("graph", "graph", "Ada Quill"),
        ("graph", "graph", "Tamsin"),
    ]
    assert (first.parent, second.parent) == (None, first.id)
    assert (first.note, second.note) == ("", SOURCE)
    assert [p.id for p in prediction.evidence.ranked()] == ["p1", "p2"]


@pytest.mark.parametrize(
    ("question", "steps", "notes"),
    [
        ("Which firms did Ada Quill found?", [("founder", "norvale")], [SOURCE, ""]),
        (QUESTION, [("founder", None), ("born in", "ada quill")], [SOURCE, ""]),
        (QUESTION, [("founder", None), ("born in", "yes")], ["", "the answer stands on no edge"]),
    ],
    ids=["one of two edges", "an edge of an earlier round", "no edge"],
)
def test_the_edge_that_leads_to_the_answer_is_noted_or_that_none_does(
    retriever: Any,
    knowledge: Knowledge,
    question: str,
    steps: list[tuple[str, str | None]],
    notes: list[str],
) -> None:
    prediction = ask(Graph(retriever, knowledge=knowledge), Follower(*steps), question)
    assert prediction.answer == steps[-1][1]
    assert [hop.note for hop in prediction.evidence.hops] == notes


def test_where_no_edge_leads_on_text_about_the_entity_reached_comes_first(
    retriever: Any, knowledge: Knowledge
) -> None:
    script = Follower(("Norvale | founder", None), look_up="instrument that Ada Quill plays")
    program = Graph(retriever, HopBudget(passages=2), knowledge)
    prediction = ask(program, script, "Which instrument does the founder of Norvale play?")
    assert prediction.answer == "read"
    found = prediction.evidence.hops[-1]
    assert (found.role, found.source, found.refined) == (
        "controller",
        "search",
        "instrument that Ada Quill plays",
    )
    assert found.passages[0].id == "p2"
    assert found.parent == 0
    assert "no edge leads on" in found.note
    assert "2 of 2 passages" in found.note


def test_a_question_that_names_nothing_known_goes_to_agentic(
    retriever: Any, knowledge: Knowledge
) -> None:
    prediction = ask(Graph(retriever, knowledge=knowledge), Follower(), "Who plays the flute?")
    assert prediction.answer == "read"
    assert [h.source for h in prediction.evidence.hops] == ["search"]
    assert prediction.usage.total.lm_calls == 1


def test_an_answer_before_any_edge_is_not_taken(retriever: Any, knowledge: Knowledge) -> None:
    prediction = ask(Graph(retriever, knowledge=knowledge), Follower(("nothing", "Paris")))
    assert prediction.answer == "read"


def test_edges_are_followed_backwards_and_never_offered_again(
    retriever: Any, knowledge: Knowledge
) -> None:
    script = Follower(("Volmer", None), ("nothing", None))
    prediction = ask(
        Graph(retriever, knowledge=knowledge), script, "Which firm did Ada Quill found?"
    )
    assert prediction.evidence.hops[0].answer == "Volmer"
    assert "Volmer" in script.shown[0]


def test_of_one_entity_no_more_edges_are_followed_than_candidates(
    retriever: Any, knowledge: Knowledge
) -> None:
    for candidates, hops in ((1, 1), (2, 2)):
        program = Graph(retriever, HopBudget(candidates=candidates, hops=1), knowledge)
        prediction = ask(program, Follower(("founder", "Norvale")), "What did Ada Quill found?")
        assert len(prediction.evidence.hops) == hops


def test_numbers_that_are_no_edges_are_passed_over(retriever: Any, knowledge: Knowledge) -> None:
    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        if "follow" not in signature.output_fields:
            return {"done": True, "answer": "read", "next_query": None}
        return {"follow": [0, -1, 99, 1, 1], "answer": "Ada Quill", "look_up": None}

    prediction = ask(Graph(retriever, knowledge=knowledge), script, "Who founded Norvale?")
    assert prediction.answer == "Ada Quill"
    assert len(prediction.evidence.hops) == 1


def test_a_walker_that_fails_is_recorded_and_covered(retriever: Any, knowledge: Knowledge) -> None:
    def script(
        signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        if "follow" in signature.output_fields:
            return None
        return {"done": True, "answer": "read", "next_query": None}

    prediction = ask(Graph(retriever, knowledge=knowledge), script)
    assert prediction.answer == "read"
    assert prediction.evidence.errors == 1


def test_a_walker_that_fails_on_the_way_does_so_at_what_was_reached(
    retriever: Any, knowledge: Knowledge
) -> None:
    follower = Follower(("Norvale | founder", None))

    def script(
        signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        lost = "follow" in signature.output_fields and not follower.steps
        return None if lost else follower(signature, inputs)

    first, failed, searched = ask(Graph(retriever, knowledge=knowledge), script).evidence.hops
    assert failed.error is not None
    assert (failed.parent, searched.parent) == (first.id, first.id)


def test_the_oracle_walks_every_question_of_a_world_that_gives_its_facts(
    chains: Benchmark,
    rare_words: Callable[[Benchmark], Any],
    knowledge_of: Callable[[Benchmark], Knowledge],
) -> None:
    program = build("graph", rare_words(chains), knowledge=knowledge_of(chains))
    asked = chains.questions["dev"]
    for question in asked:
        prediction = ask(program, OracleAdapter(asked), question.question)
        assert prediction.answer == question.answer
        if question.answerable:
            assert {h.source for h in prediction.evidence.hops} == {"graph"}


def test_without_a_graph_the_mend_is_named(retriever: Any) -> None:
    with pytest.raises(ProgramError, match="hopsmith graph --index DIR"):
        build("graph", retriever)


def test_another_graph_is_another_fingerprint(
    retriever: Any, knowledge: Knowledge, tmp_path: Path
) -> None:
    other = GraphStore(tmp_path / "other.sqlite", create=True)
    other.sync(PASSAGES, "corpus")
    one, two = Graph(retriever, knowledge=knowledge), Graph(retriever, knowledge=Knowledge(other))
    assert fingerprint(one) != fingerprint(two)


def test_the_fallback_must_be_able_to_go_on_from_a_walk(
    retriever: Any, knowledge: Knowledge
) -> None:
    with pytest.raises(ProgramError, match="agentic"):
        Graph(retriever, knowledge=knowledge, agentic=build("direct", retriever))  # type: ignore[arg-type]


def test_of_a_hubs_edges_those_that_share_words_with_the_question_are_offered(
    tmp_path: Path,
) -> None:
    store = GraphStore(tmp_path / "hub.sqlite", create=True)
    store.sync([Passage("p", "Land", "Land.")], "hub")
    to = [Triple(f"Town {i}", "country", "Land", "p") for i in range(200)]
    store.write("given", {"p": [*to, Triple("River", "source", "Land", "p")]})
    offered = Walk(Knowledge(store), "Which river has its source in Land?").offered(["land"], 60)
    assert len(offered) == 15
    assert offered[0].target == "River"


def test_the_entities_of_a_comparison_share_the_room(tmp_path: Path) -> None:
    store = GraphStore(tmp_path / "two.sqlite", create=True)
    store.sync([Passage("p", "Norvale", "Norvale.")], "two")
    own = [Triple("Norvale", f"product {i}", f"Lamp {i}", "p") for i in range(45)]
    to = [Triple(f"Firm {i}", "rival", "Norvale", "p") for i in range(20)]
    other = [Triple("Volmer", f"office {i}", f"Town {i}", "p") for i in range(11)]
    store.write("given", {"p": [*own, *to, *other]})
    walk = Walk(Knowledge(store), "Which is older, Norvale or Volmer?")
    offered = walk.offered(["norvale", "volmer"], 60)
    assert [edge.start for edge in offered] == ["norvale"] * 49 + ["volmer"] * 11
    assert [edge.triple for edge in offered[40:]] == [*to[:9], *other]
    assert len(walk.offered(["norvale", "volmer"], 10)) == 10


def test_hops_that_are_given_are_the_fall_backs_too(
    world: Benchmark, words: Any, knowledge_of: Callable[[Benchmark], Knowledge]
) -> None:
    for hops in (2, 5):
        graph = build("graph", words, HopBudget(hops=hops), knowledge=knowledge_of(world))
        assert graph.agentic.budget.hops == hops
