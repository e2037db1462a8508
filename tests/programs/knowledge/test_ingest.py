"""Reading passages once, side by side, and going on where a pass stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Barrier
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs.fan_out import WIDTH
from programs.knowledge import GraphError, Knowledge
from programs.knowledge.ingest import (
    Extractor,
    estimate,
    extract,
    forget,
    note_cost,
    pending,
    proposition_of,
    triple_of,
)
from programs.knowledge.schema import GraphSchema
from programs.knowledge.store import GraphStore
from retrieval import Passage
from signatures import Claim, ExtractTriples, Statement, Triple

QUILL = Passage("p1", "Ada Quill", "Ada Quill was born in Tamsin in 1948. She won the Orla Prize.")


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    store = GraphStore(tmp_path / "graph.sqlite", create=True)
    passages = [Passage(f"p{i:02}", f"Town {i}", f"Town {i} is in Land {i}.") for i in range(40)]
    store.sync(passages, "towns")
    return store


def asking(adapter: Any, lm: str = "scripted/lm") -> Any:
    return dspy.context(lm=stand_in(lm), adapter=adapter, disable_history=True)


def country(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Each passage states where its town is."""
    title = inputs["passage"].blocks[0].splitlines()[0]
    land = title.replace("Town", "Land")
    return {"triples": [Statement(subject="It", relation="Country_of", object=land)]}


def test_the_oracle_reads_the_facts_of_a_world_and_propositions_too(
    world: Benchmark, tmp_path: Path
) -> None:
    store = GraphStore(tmp_path / "graph.sqlite", create=True)
    store.sync(world.corpus, "world")
    with asking(OracleAdapter((), triples=world.triples)):
        done = extract(store, Extractor("triples"))
        extract(store, Extractor("propositions"))
    assert (done.passages, done.failed) == (len(world.corpus), ())
    assert set(store.triples()) == set(world.triples)
    assert len(Knowledge(store).propositions) == len(world.triples)


def test_a_pass_goes_on_where_it_was_stopped(store: GraphStore) -> None:
    asked: list[str] = []

    def stopping(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.extend(inputs["passage"].ids)
        if len(asked) > 20:
            raise KeyboardInterrupt
        return country(signature, inputs)

    with asking(ScriptedAdapter(stopping)), pytest.raises(KeyboardInterrupt):
        extract(store, Extractor("triples"))
    kept = len(list(store.triples()))
    assert kept == 16
    with asking(ScriptedAdapter(country)):
        done = extract(store, Extractor("triples"))
    assert done.passages == 24
    assert len(list(store.triples())) == 40


def test_as_many_passages_are_read_at_once_as_the_width_allows(store: GraphStore) -> None:
    all_there = Barrier(40)

    def together(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        all_there.wait(timeout=60)
        return country(signature, inputs)

    with asking(ScriptedAdapter(together)), dspy.context(**{WIDTH: 40}):
        done = extract(store, Extractor("triples"))
    assert (done.passages, done.failed) == (40, ())


def test_names_are_written_in_full_and_relations_alike(store: GraphStore) -> None:
    with asking(ScriptedAdapter(country)):
        extract(store, Extractor("triples"), limit=1)
    assert list(store.triples()) == [Triple("Town 0", "country of", "Land 0", "p00")]


def test_a_passage_without_a_usable_reply_stays_unread(store: GraphStore) -> None:
    def faulty(
        signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        return None if "p03" in inputs["passage"].ids else country(signature, inputs)

    with asking(ScriptedAdapter(faulty)):
        done = extract(store, Extractor("triples"))
    assert done.failed == ("p03",)
    assert store.unread("triples") == ["p03"]


def test_an_lm_that_never_replies_ends_the_pass(store: GraphStore) -> None:
    with asking(ScriptedAdapter(lambda *_: None)), pytest.raises(GraphError, match="--adapter"):
        extract(store, Extractor("triples"))
    assert len(store.unread("triples")) == 40


def test_readings_of_two_lms_are_not_mixed(store: GraphStore) -> None:
    with asking(ScriptedAdapter(country)):
        extract(store, Extractor("triples"), limit=2)
    with asking(ScriptedAdapter(country), "other/lm"), pytest.raises(GraphError, match="--again"):
        extract(store, Extractor("triples"))
    schema = GraphSchema(entities=("town",))
    with asking(ScriptedAdapter(country)), pytest.raises(GraphError, match="schema"):
        extract(store, Extractor("triples", schema))
    forget(store, "triples")
    assert len(store.unread("triples")) == 40


def test_what_the_schema_leaves_out_is_dropped_and_counted(store: GraphStore) -> None:
    schema = GraphSchema(relations={"mayor": ("town", "person")})
    with asking(ScriptedAdapter(country)):
        done = extract(store, Extractor("triples", schema), limit=5)
    assert (done.found, done.dropped) == (0, 5)


def test_a_schema_names_relations_with_the_types_they_link(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"entities": ["City"], "relations": {"Born_in": ["person", "city"]}}')
    schema = GraphSchema.read(path)
    assert schema.relation_types() == ["born in (person → city)"]
    right = Triple("Ada", "born in", "Tamsin", "p", "person", "city")
    assert not schema.allows(right)
    assert GraphSchema(relations=schema.relations).allows(right)
    assert not GraphSchema(relations=schema.relations).allows(
        Triple("Ada", "born in", "Tamsin", "p", "person", "river")
    )
    path.write_text('{"relations": 3}')
    with pytest.raises(GraphError, match="relations"):
        GraphSchema.read(path)


@pytest.mark.parametrize(
    ("statement", "triple"),
    [
        (
            Statement(subject="She", subject_type="Person", relation="won", object="Orla Prize"),
            Triple("Ada Quill", "won", "Orla Prize", "p1", "person"),
        ),
        (Statement(subject="Ada Quill", relation="won", object="Nobel Peace Medal"), None),
        (Statement(subject="Ada Quill", relation="is", object="ada quill"), None),
        (Statement(subject="Ada Quill", relation="!", object="Tamsin"), None),
        ("Ada Quill was born", None),
    ],
)
def test_what_is_not_in_the_passage_is_no_triple(statement: Any, triple: Triple | None) -> None:
    assert triple_of(statement, QUILL) == triple


@pytest.mark.parametrize(
    ("found", "text", "kept"),
    [
        ("1948", "Born in 1948.", True),
        ("1600", "Born in 1948.", False),
        ("160", "Born in 1600.", False),
        ("1948-05-01", "Born on 1 May 1948.", True),
        ("1949-05-01", "Born on 1 May 1948.", False),
        ("May 1, 1948", "Born 1948-05-01.", True),
        ("1 May 1949", "Born on 1 May 1948.", False),
        ("1 Mai 1948", "Am 1. Mai 1948 geboren.", True),
        ("2", "They had two children.", True),
        ("12500", "A town of 12,500 people.", True),
        ("12,500", "A town of 12 500 people.", True),
        ("12,500 m", "It is 12\u202f500 metres high.", True),
        ("3rd", "She came in 3rd.", True),
    ],
)
def test_each_number_of_a_literal_stands_in_the_passage(found: str, text: str, kept: bool) -> None:
    statement = Statement(
        subject="Ada Quill", subject_type="", relation="fact", object=found, object_type="date"
    )
    assert (triple_of(statement, Passage("p", "Ada Quill", text)) is not None) == kept


@given(st.text(), st.text(), st.text())
def test_any_statement_is_a_triple_or_none(subject: str, relation: str, found: str) -> None:
    made = triple_of(Statement(subject=subject, relation=relation, object=found), QUILL)
    assert made is None or (made.relation and made.passage == "p1")
    claim = proposition_of(Claim(text=subject, entities=[relation, found]), QUILL)
    assert claim is None or claim.text


def test_replies_held_to_a_strict_schema_have_no_defaults_and_others_may_leave_types_out() -> None:
    assert "default" not in str(Statement.model_json_schema())
    reply = '{"triples": [{"subject": "Ada", "relation": "born", "object": 1948}]}'
    (read,) = dspy.JSONAdapter().parse(ExtractTriples, reply)["triples"]
    assert (read.object, read.object_type) == ("1948", "")


def test_the_estimate_counts_passages_and_learns_from_earlier_passes(store: GraphStore) -> None:
    passages = list(store.passages([f"p{i:02}" for i in range(40)]).values())
    extractor = Extractor("triples")
    guess = estimate(extractor, pending(store, passages, "triples"), None)
    assert (guess.passages, guess.measured) == (40, 0)
    assert guess.prompt_tokens > 40 * 200
    note_cost(store, "triples", 10, 500)
    told = estimate(extractor, passages[:20], store.noted()["cost.triples"])
    assert (told.completion_tokens, told.measured) == (1000, 10)
    assert told.cost((1.0, 2.0)) == pytest.approx((told.prompt_tokens + 2000) / 1e6)
    assert told.cost(None) is None


def test_pending_passages_are_the_new_and_the_changed(store: GraphStore) -> None:
    with asking(ScriptedAdapter(country)):
        extract(store, Extractor("triples"))
    held: Iterator[Passage] = iter(store.passages(["p00", "p01"]).values())
    changed, same = Passage("p00", "Town 0", "Other."), next(p for p in held if p.id == "p01")
    new = Passage("p99", "Town 99", "New.")
    assert pending(store, [changed, same, new], "triples") == [changed, new]
    assert pending(None, [same], "triples") == [same]
