"""Conditions on metadata as a filter of Qdrant's.

As ``retrieval.where``, but an order is one of numbers: text is not ordered, and a number that was
written as text has none. Qdrant orders numbers as floats, so whole ones beyond 2**53 roughly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from retrieval.errors import QueryError
from retrieval.qdrant.connection import asking
from retrieval.qdrant.manifest import QdrantManifest
from retrieval.where import Condition, number_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

EXACT = 1 << 53
"""Whole numbers beyond it are not all told apart as floats."""
WHOLE = 1 << 63
"""Bound of Qdrant's own."""
BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def filter_of(manifest: QdrantManifest, conditions: Sequence[Condition] = ()) -> Any:
    """A filter that a point of the index meets when it meets all conditions; one of a change that
    has not ended meets it never. Raises ``QueryError`` for an order of text."""
    from qdrant_client import models

    return models.Filter(must=[_whole(manifest), *map(_one, conditions)])


def check_columns(manifest: QdrantManifest, conditions: Sequence[Condition]) -> None:
    """Raise ``QueryError`` for a column that no passage has."""
    from qdrant_client import models

    for column in {condition.column for condition in conditions}:
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=_key(column)))
        if not count(manifest, models.Filter(must=[_whole(manifest)], must_not=[empty])):
            raise QueryError(f"no passage has the column {column!r}: correct the filter")


def count(manifest: QdrantManifest, only: Any) -> int:
    """How many points meet a filter."""
    with asking(manifest.url) as ask:
        return ask(partial(_count, manifest.collection, only))


def _count(collection: str, only: Any, client: QdrantClient) -> int:
    return int(client.count(collection, count_filter=only, exact=True).count)


def _whole(manifest: QdrantManifest) -> Any:
    from qdrant_client import models

    return models.FieldCondition(key="n", range=models.Range(lt=manifest.numbered))


def _one(condition: Condition) -> Any:
    from qdrant_client import models

    key, value = _key(condition.column), condition.value
    number = number_of(value)
    if condition.operator in BOUNDS:
        if number is None:
            raise QueryError(
                f"the filter {str(condition)!r} orders text, which Qdrant can't: compare numbers"
            )
        bounds = models.Range(**{BOUNDS[condition.operator]: float(value)})
        return models.FieldCondition(key=key, range=bounds)
    same: list[Any] = [models.FieldCondition(key=key, match=models.MatchValue(value=value))]
    whole = number if isinstance(number, int) and -WHOLE <= number < WHOLE else None
    if whole is not None:
        same.append(models.FieldCondition(key=key, match=models.MatchValue(value=whole)))
    if number is not None and (whole is None or abs(whole) <= EXACT):
        alike = models.Range(gte=float(value), lte=float(value))
        same.append(models.FieldCondition(key=key, range=alike))
    if value in ("true", "false"):
        truth = models.MatchValue(value=value == "true")
        same.append(models.FieldCondition(key=key, match=truth))
    return (
        models.Filter(must_not=same) if condition.operator == "!=" else models.Filter(should=same)
    )


def _key(column: str) -> str:
    """A column's place in the payload."""
    if column in ("id", "title"):
        return column
    return f"metadata.{column}" if re.fullmatch(r"\w+", column) else f'metadata."{column}"'
