"""A corpus that grows holds the same world at every size."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks import BenchmarkError
from benchmarks.growing import CORE, growing, lookups


def test_a_larger_corpus_begins_with_the_smaller_and_repeats_no_id() -> None:
    small, large = list(growing(CORE + 20)), list(growing(CORE + 1_500))
    assert large[: len(small)] == small
    assert (len(small), len({p.id for p in large})) == (CORE + 20, CORE + 1_500)
    assert list(islice(growing(CORE, seed=1), 5)) != small[:5]


def test_lookups_ask_for_a_passage_of_the_world_that_answers_them() -> None:
    asked = lookups()
    texts = {p.id: p.text for p in growing(CORE)}
    assert len(asked) == len({query for query, _ in asked}) == 300
    assert all(gold in texts and "{" not in query for query, gold in asked)
    assert lookups(10) == asked[:10]


def test_a_corpus_smaller_than_its_world_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="at least"):
        list(growing(CORE - 1))
