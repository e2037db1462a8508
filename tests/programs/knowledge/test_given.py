"""Triples and links that a corpus brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs.knowledge import GraphError, Knowledge
from programs.knowledge.given import Given, given_row, linked, write_given
from programs.knowledge.report import check
from programs.knowledge.store import GraphStore
from retrieval import Passage
from signatures import Triple

PASSAGES = [
    Passage("p1", "Ada Quill", "…", metadata={"cites": ["p2", "Tamsin"]}),
    Passage("p2", "Norvale (company)", "…", metadata={"cites": "p1"}),
    Passage("p3", "Tamsin", "…"),
]


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    store = GraphStore(tmp_path / "graph.sqlite", create=True)
    store.sync(PASSAGES, "corpus")
    return store


def test_a_triple_belongs_to_its_passage_or_to_the_one_titled_by_its_subject(
    store: GraphStore,
) -> None:
    placed = write_given(
        store,
        [
            Given(Triple("Ada Quill", "born in", "Tamsin", "p3")),
            Given(Triple("Norvale", "founder", "Ada Quill")),
            Given(Triple("The mayor", "of", "Tamsin")),
            Given(Triple("X", "y", "Z"), title="Ada Quill"),
            Given(Triple("Nobody", "knows", "Nothing")),
        ],
    )
    assert {t.subject: t.passage for t in store.triples()} == {
        "Ada Quill": "p3",
        "Norvale": "p2",
        "The mayor": "p3",
        "X": "p1",
    }
    assert (placed.triples, len(placed.unplaced)) == (4, 1)


def test_given_again_replaces_what_was_given(store: GraphStore) -> None:
    first, second = (Given(Triple("Ada Quill", r, "Tamsin")) for r in ("born in", "died in"))
    counts = [write_given(store, given).replaced for given in ([first], [first], [second])]
    assert counts == [0, 0, 1]
    assert [t.relation for t in store.triples()] == ["died in"]


def test_plain_links_between_passages_are_edges_between_their_titles(store: GraphStore) -> None:
    write_given(store, linked(PASSAGES, "cites"))
    assert {(t.subject, t.relation, t.object) for t in store.triples()} == {
        ("Ada Quill", "refers to", "Norvale (company)"),
        ("Ada Quill", "refers to", "Tamsin"),
        ("Norvale (company)", "refers to", "Ada Quill"),
    }
    assert Knowledge(store).about(["tamsin"]) == ["p3", "p1"]


def test_a_column_that_no_passage_has_is_refused() -> None:
    with pytest.raises(GraphError, match="'links'"):
        linked(PASSAGES, "links")


def test_rows_are_triples_or_links_and_others_name_the_columns() -> None:
    (one,) = given_row({"Subject": "A", "relation": "r", "object": 7, "passage": "p"}, "f:2")
    assert one.triple == Triple("A", "r", "7", "p")
    (link,) = given_row({"source": "p1", "target": "p2", "relation": "cites"}, "f:3")
    assert link.reference
    with pytest.raises(GraphError, match="f:4 lacks relation, object"):
        given_row({"subject": "A", "relation": " "}, "f:4")


def test_precision_looks_only_at_what_the_given_triples_speak_of() -> None:
    given = [Triple("Ada Quill", "born in", "Tamsin"), Triple("Norvale (firm)", "founder", "Ada")]
    found = [
        Triple("ada quill", "born_in", "Volmer"),
        Triple("Ada Quill", "born in", "Tamsin"),
        Triple("Norvale", "made by", "Ada"),
        Triple("Volmer", "country", "Land"),
    ]
    made = check(found, given)
    assert (made.given, made.linked, made.same, made.compared, made.right) == (2, 2, 1, 2, 1)
    assert made.shares() == {"recall": 1.0, "recall_with_relation": 0.5, "precision": 0.5}
    assert set(check([], []).shares().values()) == {None}
