"""Evidence: pooled ranking, parents, repeats."""

from __future__ import annotations

from programs import Evidence
from retrieval import Passage


def passages(*pairs: tuple[str, float]) -> list[Passage]:
    return [Passage(i, i, i, score, rank) for rank, (i, score) in enumerate(pairs, 1)]


def test_pool_is_ranked_by_rank_then_score_then_first_seen() -> None:
    evidence = Evidence()
    evidence.add(role="r", query="1", passages=passages(("a", 0.5), ("b", 0.4), ("c", 0.3)))
    evidence.add(role="r", query="2", passages=passages(("d", 0.9), ("c", 0.6), ("a", 0.1)))
    assert [p.id for p in evidence.ranked()] == ["d", "a", "c", "b"]
    assert [p.id for p in evidence.passages] == ["a", "b", "c", "d"]


def test_depth_follows_the_parent() -> None:
    evidence = Evidence()
    root = evidence.add(role="r", query="1")
    child = evidence.add(role="r", query="2", parent=root.id)
    assert (root.depth, child.depth) == (0, 1)
    outer = Evidence()
    top = outer.add(role="r", query="0")
    outer.extend(evidence, parent=top.id)
    assert [(h.id, h.parent, h.depth) for h in outer.hops] == [(0, None, 0), (1, 0, 1), (2, 1, 2)]


def test_repeated_queries_are_known_whatever_their_case() -> None:
    evidence = Evidence()
    evidence.add(role="r", query="Who founded Norvale?", passages=passages(("a", 1.0)))
    assert evidence.asked("  who founded  norvale ")
    assert not evidence.asked("who founded Norvale Systems?")


def test_facts_carry_candidates() -> None:
    evidence = Evidence()
    hop = evidence.add(role="r", query="Who?")
    evidence.update(hop, answer="A", candidates=("A", "B"))
    assert evidence.facts() == ["Who? → A or B"]
    assert evidence.best_answer() == "A"
