"""The bench itself: figures from a short load."""

from __future__ import annotations

import pytest

from hopsmith.serving.bench import Load, Report, bench_serve


def test_figures_of_a_load() -> None:
    alone, loaded = Load(), Load()
    alone.seconds, alone.wall = [1.0] * 20, 20.0
    loaded.seconds, loaded.wall = [1.0] * 18 + [1.2, 1.2], 10.0
    loaded.statuses.update({"200": 20, "429": 5, "ReadError": 1})
    told = Report(2, 8, 0.2, "decompose", alone, loaded, (100.0, 101.0, 102.0, 103.0)).to_json()
    assert told["loaded"]["lost"] == 1
    assert told["loaded"]["refused"] == 5
    assert told["p95_ratio"] == 1.2
    assert told["memory_growth"] == 0.03
    assert (told["no_request_lost"], told["p95_within"], told["memory_flat"]) == (False, True, True)


@pytest.mark.slow
def test_under_load_every_request_ends_in_an_answer_or_a_429() -> None:
    report = bench_serve(concurrency=2, requests=40, lm_seconds=0.02)
    assert len(report.loaded.seconds) >= 40
    assert report.loaded.lost == 0
    assert report.clients == 8
    assert len(report.memory) == 4
