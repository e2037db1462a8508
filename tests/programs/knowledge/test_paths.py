"""Paths of propositions that share entities."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from programs.knowledge.paths import PropositionGraph
from signatures import Proposition

FACTS = [
    Proposition("Norvale was founded by Ada Quill.", ("Norvale", "Ada Quill"), "p1"),
    Proposition("Ada Quill was born in Tamsin.", ("Ada Quill", "Tamsin"), "p2"),
    Proposition("Tamsin lies on the river Orla.", ("Tamsin", "Orla"), "p3"),
    Proposition("Volmer was founded by Ida Moor.", ("Volmer", "Ida Moor"), "p4"),
    Proposition("Ada Quill plays the flute.", ("Ada Quill",), "p2"),
]
QUESTION = "On which river lies the town where the founder of Norvale was born?"


def test_a_path_leads_over_shared_entities_to_passages_that_no_search_found() -> None:
    graph = PropositionGraph(FACTS)
    best = graph.beam(QUESTION, {"p1": 1.0, "p4": 0.5}, width=4, length=3)[0]
    assert graph.passages(best) == ["p1", "p2", "p3"]
    assert graph.told(best).count(" → ") == 2


def test_a_path_grows_only_by_what_covers_more_of_the_question() -> None:
    graph = PropositionGraph(FACTS)
    for path in graph.beam(QUESTION, {"p1": 1.0}, width=8, length=4):
        assert 4 not in path.steps
        assert len(path.words) >= len(path.steps)


def test_paths_are_no_longer_than_their_length_and_start_where_the_search_did() -> None:
    graph = PropositionGraph(FACTS)
    for length in (1, 2, 3):
        found = graph.beam(QUESTION, {"p4": 1.0, "p2": 0.1}, width=2, length=length)
        assert max(len(p.steps) for p in found) <= length
        assert {graph.propositions[p.steps[0]].passage for p in found} <= {"p4", "p2"}
        assert len(found) <= 2 * length


def test_equal_entities_by_other_spellings_are_shared() -> None:
    graph = PropositionGraph(
        [
            Proposition("Norvale was founded by Ada.", ("the Norvale", "ADA"), "p1"),
            Proposition("Ada plays.", ("Ada",), "p2"),
        ]
    )
    best = graph.beam("Who founded Norvale and plays?", {"p1": 1.0}, width=1, length=2)[0]
    assert graph.passages(best) == ["p1", "p2"]


def test_a_question_without_known_words_has_paths_by_search_score_alone() -> None:
    graph = PropositionGraph(FACTS)
    assert graph.weights("Xyzzy?") == {}
    (best, *_) = graph.beam("Xyzzy?", {"p4": 0.2, "p1": 0.9}, width=2, length=3)
    assert graph.passages(best) == ["p1"]


def test_a_graph_without_propositions_has_no_paths() -> None:
    assert PropositionGraph([]).beam(QUESTION, {"p1": 1.0}, width=4, length=3) == []


@given(st.text(), st.integers(1, 4), st.integers(1, 4))
def test_any_question_has_paths_in_order_of_their_scores(
    question: str, width: int, length: int
) -> None:
    graph = PropositionGraph(FACTS)
    found = graph.beam(question, {"p1": 1.0, "p3": 0.0}, width=width, length=length)
    scores = [p.score for p in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= s <= 2 + 1e-9 for s in scores)
