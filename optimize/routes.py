"""Routes: how a run's questions were shared out between the parts of a router."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from optimize.rows import PredictionRow

ENOUGH = 10
"""Questions below which one route for all says nothing."""
ONE = 0.95
"""Share of one route from which on a router has collapsed to it."""


def route_shares(rows: Sequence[PredictionRow]) -> dict[str, float]:
    """The share of each route, the largest first; empty for methods without routes."""
    taken = Counter(str(row.extra["route"]) for row in rows if row.extra.get("route"))
    total = sum(taken.values())
    return {route: n / total for route, n in taken.most_common()}


def collapsed(shares: dict[str, float], questions: int) -> str | None:
    """The route that nearly all questions took, where there are enough of them."""
    route = next((r for r, share in shares.items() if share >= ONE), None)
    return route if questions >= ENOUGH else None


def route_line(rows: Sequence[PredictionRow]) -> str | None:
    """The shares as a line for people, a collapsed router named as such."""
    shares = route_shares(rows)
    if not shares:
        return None
    line = "routes: " + ", ".join(f"{route} {share:.0%}" for route, share in shares.items())
    advice = collapse_advice(rows)
    return f"{line}. {advice}" if advice else line


def collapse_advice(rows: Sequence[PredictionRow]) -> str | None:
    """What to do about a router that has collapsed; None for one that has not."""
    one = collapsed(route_shares(rows), len(rows))
    if one is None:
        return None
    return (
        f"The router has collapsed to one route, {one}: use that method by itself, or better the "
        "classification (unless all these questions are of one kind)"
    )


def routed(rows: Sequence[PredictionRow]) -> dict[str, Any]:
    """``routes`` and ``collapsed`` as JSON values; empty for methods without routes."""
    shares = route_shares(rows)
    return {"routes": shares, "collapsed": collapsed(shares, len(rows))} if shares else {}
