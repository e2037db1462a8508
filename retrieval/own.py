"""Own retrievers: anyone's object with the contract's ``search``, named as ``module:factory`` or by
the entry-point group ``hopsmith.retrievers``.

What is named is called (with ``--index``, where that is given) and returns the retriever. It is
wrapped, so that argument checks, copying and pickling come for free; ``identity`` and
``corpus_hash`` are its own, where it declares them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from retrieval.contract import BaseRetriever, Retriever, identity_of
from retrieval.errors import QueryError, RetrievalError, RetrieverFault
from retrieval.passage import Passage
from retrieval.where import Condition, conditions_of

ENTRY_POINTS = "hopsmith.retrievers"


class PluggedRetriever(BaseRetriever):
    """Somebody's retriever behind the contract's argument checks. Copies are the same object, a
    pickle holds its name and what it was opened with."""

    def __init__(
        self, name: str, place: str | None, inner: Retriever, conditions: tuple[Condition, ...] = ()
    ) -> None:
        self.name = name
        self.place = place
        self.inner = inner
        self.conditions = conditions

    def __reduce__(self) -> tuple[Any, ...]:
        return (plugged, (self.name, self.place, *map(str, self.conditions)))

    def where(self, *conditions: str | Condition) -> PluggedRetriever:
        """Its own ``where``, if it has one."""
        wanted = conditions_of(conditions)
        narrow = getattr(self.inner, "where", None)
        if narrow is None:
            raise QueryError(f"retriever {self.name} has no where(): leave the filter out")
        return PluggedRetriever(self.name, self.place, narrow(*wanted), (*self.conditions, *wanted))

    def __len__(self) -> int:
        """Passages in its corpus. Raises ``TypeError`` when it doesn't say."""
        return len(self.inner)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        found: Any = self.inner.search(queries, k, pool=pool)
        with suppress(TypeError):
            lists = [list(passages) for passages in found]
            if len(lists) == len(queries) and all(
                isinstance(p, Passage) for passages in lists for p in passages
            ):
                return lists
        raise RetrieverFault(
            f"retriever {self.name} must return a list of retrieval.Passage for each query, not "
            f"{str(found)[:60]}: {_check(self.name)}"
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        if isinstance(getattr(self.inner, "identity", None), Mapping):
            return identity_of(self.inner)
        return {"engine": self.name}

    @property
    def corpus_hash(self) -> str:
        return str(getattr(self.inner, "corpus_hash", "") or "")


def plugged(name: str, place: str | None = None, *conditions: str) -> PluggedRetriever:
    """The retriever of a plug-in, called with ``place`` unless that is None; of it the passages
    that meet the conditions. Raises ``RetrieverFault`` naming the mend."""
    factory = _factory(name)
    arguments = () if place is None else (place,)
    try:
        inspect.signature(factory).bind(*arguments)
    except ValueError:  # built in C: it has no signature that can be read
        pass
    except TypeError as fault:
        mend = "give --index" if place is None else "leave --index out"
        raise RetrieverFault(f"retriever {name} can't be called ({fault}): {mend}") from fault
    try:
        inner = factory(*arguments)
    except RetrievalError:
        raise
    except Exception as fault:
        raise RetrieverFault(
            f"retriever {name} can't be made ({_said(fault)}): {_check(name)}"
        ) from fault
    if not callable(getattr(inner, "search", None)):
        raise RetrieverFault(
            f"retriever {name} returned {type(inner).__name__}, which has no search(queries, k, "
            "pool): see retrieval/contract.py"
        )
    retriever = PluggedRetriever(name, place, inner)
    return retriever.where(*conditions) if conditions else retriever


def _factory(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not colon:
        points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        if name not in points:
            there = f" (there are {', '.join(sorted(points))})" if points else ""
            raise RetrieverFault(
                f"no installed package brings the retriever {name!r}{there}: name it as "
                "module:factory"
            )
        module, _, attribute = points[name].value.partition(":")
    try:
        factory: Any = import_module(module)
    except ModuleNotFoundError as fault:
        raise RetrieverFault(
            f"retriever {name}: {fault}; run this in its folder, or install its package"
        ) from fault
    except Exception as fault:
        raise RetrieverFault(
            f"retriever {name}: {module} can't be imported ({_said(fault)}): {_check(name)}"
        ) from fault
    for part in attribute.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        raise RetrieverFault(f"retriever {name}: {module} has no function or class {attribute!r}")
    return factory


def _said(fault: Exception) -> str:
    return f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"


def _check(name: str) -> str:
    return f"mend it and check it with hopsmith doctor --retriever {name}"
