"""Making a graph: given triples first, then the LM pass, its cost said before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from hopsmith.errors import HopsmithError
from hopsmith.session import session
from hopsmith.settings import Settings
from programs.fan_out import WIDTH
from programs.ledger import LEDGER, Account, Ledger
from programs.metered import MeteredAdapter
from retrieval import Passage, Retriever
from retrieval.contract import ReadsCorpus

if TYPE_CHECKING:
    from programs.knowledge.given import Given, Placed
    from programs.knowledge.graph import Coverage
    from programs.knowledge.ingest import Estimate, Extraction
    from programs.knowledge.report import Check
    from programs.knowledge.schema import GraphSchema
    from programs.knowledge.store import GraphStore, Kind, Synced

Bar = Callable[[int, str], AbstractContextManager[Callable[[int, int], None]]]
BENCHMARKS = {
    "2wikimultihopqa": {"evidences"},
    "musique": {"question_decomposition", "paragraphs"},
}
"""Whose questions state triples, by the fields that tell them."""


@dataclass(frozen=True)
class Sources:
    """Where triples come from besides the LM: files or benchmarks' names, and a column."""

    triples: str | None = None
    links: str | None = None
    check: str | None = None


@dataclass
class Made:
    """What was done, and what the graph holds now."""

    place: str
    estimates: list[Estimate] = field(default_factory=list)
    cost: list[float | None] = field(default_factory=list)
    synced: Synced | None = None
    placed: Placed | None = None
    passes: list[Extraction] = field(default_factory=list)
    spent: Account = field(default_factory=Account)
    counts: dict[str, int] | None = None
    """None after a dry run over a graph that isn't there."""
    coverage: dict[str, Coverage] = field(default_factory=dict)
    check: Check | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "graph": self.place,
            "estimates": [
                {**asdict(e), "cost": c} for e, c in zip(self.estimates, self.cost, strict=True)
            ],
            "synced": self.synced and asdict(self.synced),
            "given": self.placed
            and {
                "triples": self.placed.triples,
                "passages": self.placed.passages,
                "unplaced": len(self.placed.unplaced),
                "replaced": self.placed.replaced,
            },
            "passes": [asdict(p) for p in self.passes],
            "spent": self.spent.to_json(),
            "counts": self.counts,
            "coverage": {
                kind: {**asdict(c), "share": round(c.share, 4)} for kind, c in self.coverage.items()
            },
            "check": self.check and {**asdict(self.check), **self.check.shares()},
        }


def make_graph(
    retriever: Retriever,
    settings: Settings,
    sources: Sources,
    *,
    kinds: Sequence[Kind],
    schema: GraphSchema | None,
    limit: int | None,
    again: bool,
    dry_run: bool,
    say: Callable[[str], None],
    bar: Bar,
) -> Made:
    """Bring the graph of an index up to date. Raises ``GraphError`` and ``HopsmithError``."""
    from programs.knowledge import GraphError
    from programs.knowledge.given import write_given
    from programs.knowledge.store import GraphStore, beside, digest

    if not isinstance(retriever, ReadsCorpus):
        raise HopsmithError("this index can't list its passages: a graph is made of a local one")
    place = settings.graph or beside(settings.index or "")
    if place is None:
        raise HopsmithError("an index at an address has no file beside it: say where with --graph")
    corpus: list[Passage] = list(retriever.corpus())
    place = str(place)
    given = _given(sources, corpus, settings.seed)
    right = [g.triple for g in _read(sources.check, settings.seed)] if sources.check else []
    store = _there(place)
    if store is not None and not again:
        held = store.digests()
        if held and not any(held.get(p.id) == digest(p) for p in corpus):
            raise GraphError(
                f"the graph at {store.name} is of another corpus: give another --graph, or --again "
                "to replace it"
            )
    made = Made(place if store is None else store.name)
    knows = [g.triple for g in (*given, *_read(sources.check, settings.seed))]
    if kinds:
        _estimate(made, None if again else store, corpus, kinds, schema, limit, settings, say)
    if dry_run:
        return _told(made, store, right, say)
    store = GraphStore(place, create=True)
    made.place = store.name
    made.synced = store.sync(corpus, str(getattr(retriever, "corpus_hash", "")))
    if made.synced.changed or made.synced.gone:
        say(
            f"{made.synced.changed:,} passages have changed and {made.synced.gone:,} have gone: "
            "what was read from them is dropped"
        )
    if given:
        made.placed = write_given(store, given)
        _say_placed(made.placed, say)
    if kinds:
        _passes(made, store, kinds, schema, limit, again, settings, knows, say, bar)
    return _told(made, store, right, say)


def _there(place: str) -> GraphStore | None:
    """The graph at a place, None where there is none yet."""
    from programs.knowledge import GraphError
    from programs.knowledge.store import GraphStore

    if "://" not in place:
        return GraphStore(place) if Path(place).is_file() else None
    try:
        return GraphStore(place)
    except GraphError as fault:
        if "holds no graph" in str(fault):
            return None
        raise


def _estimate(
    made: Made,
    store: GraphStore | None,
    corpus: Sequence[Passage],
    kinds: Sequence[Kind],
    schema: GraphSchema | None,
    limit: int | None,
    settings: Settings,
    say: Callable[[str], None],
) -> None:
    from programs.knowledge.ingest import Extractor, estimate, pending

    noted = store.noted() if store is not None else {}
    for kind in kinds:
        unread = pending(store, corpus, kind)[:limit]
        told = estimate(Extractor(kind, schema), unread, noted.get(f"cost.{kind}"))
        cost = told.cost(settings.price)
        made.estimates.append(told)
        made.cost.append(cost)
        if not unread:
            say(f"{kind}: every passage has been read")
            continue
        basis = f"measured on {told.measured:,} passages" if told.measured else "a guess"
        money = "" if cost is None else f", ${cost:,.2f}"
        say(
            f"{kind}: {told.passages:,} passages to read, as many LM calls, about "
            f"{told.prompt_tokens:,} tokens read and {told.completion_tokens:,} written "
            f"({basis}){money}"
        )


def _passes(
    made: Made,
    store: GraphStore,
    kinds: Sequence[Kind],
    schema: GraphSchema | None,
    limit: int | None,
    again: bool,
    settings: Settings,
    knows: Sequence[Any],
    say: Callable[[str], None],
    bar: Bar,
) -> None:
    from programs.knowledge.ingest import Extractor, extract, forget, note_cost

    for kind in kinds:
        if again:
            forget(store, kind)
    with session(settings, (), triples=knows) as here:
        for kind, told in zip(kinds, made.estimates, strict=True):
            ledger = Ledger()
            asking = {LEDGER: ledger, WIDTH: settings.at_once}
            with (
                dspy.context(adapter=MeteredAdapter(here.adapter), **asking),
                bar(told.passages, kind) as progress,
            ):
                done = extract(store, Extractor(kind, schema), limit=limit, progress=progress)
            note_cost(store, kind, done.passages, ledger.total.completion_tokens)
            made.passes.append(done)
            made.spent += ledger.total
            _say_pass(done, settings.max_tokens, say)


def _say_pass(done: Extraction, max_tokens: int, say: Callable[[str], None]) -> None:
    line = f"{done.kind}: {done.found:,} from {done.passages:,} passages"
    if done.dropped:
        line += f"; {done.dropped:,} dropped (not in the passage, or not in the schema)"
    say(line)
    if done.failed:
        say(
            f"{len(done.failed):,} passages gave no usable reply ({', '.join(done.failed[:3])}, …):"
            f" if replies were cut off, set HOPSMITH_MAX_TOKENS above {max_tokens}; else another "
            "--lm with --again; after a fault of the endpoint, the same command"
        )


def _say_placed(placed: Placed, say: Callable[[str], None]) -> None:
    say(f"given: {placed.triples:,} triples of {placed.passages:,} passages")
    if placed.replaced:
        say(
            f"{placed.replaced:,} triples given before are replaced: --triples and --links in one "
            "command keep both"
        )
    if placed.unplaced:
        first = placed.unplaced[0]
        say(
            f"{len(placed.unplaced):,} triples belong to no passage of this index and are left "
            f"out, the first: {first.subject} | {first.relation} | {first.object}"
        )


def _told(
    made: Made, store: GraphStore | None, right: Sequence[Any], say: Callable[[str], None]
) -> Made:
    from programs.knowledge import Knowledge
    from programs.knowledge.report import check

    if store is not None:
        made.counts = store.counts()
        made.coverage = Knowledge(store).coverage
        read = [*store.triples("lm")] if right else []
        if read:
            made.check = check(read, right)
        elif right:
            say("--check: the graph has no triples read by an LM to compare (--extract triples)")
    return made


def _given(sources: Sources, corpus: Sequence[Passage], seed: int) -> list[Given]:
    from programs.knowledge.given import linked

    found = _read(sources.triples, seed)
    return [*found, *linked(corpus, sources.links)] if sources.links else found


def _read(name: str | None, seed: int) -> list[Given]:
    """Triples of a file, or those that a benchmark brings."""
    from benchmarks import load
    from benchmarks.rows import file_rows
    from programs.knowledge.given import Given, given_row

    if name is None:
        return []
    path = Path(name)
    if not path.is_file():
        if name.partition(":")[0] != "synthetic":
            raise HopsmithError(f"no file of triples at {name}")
        return [Given(triple) for triple in load(name, seed=seed).triples]
    rows = list(file_rows(path))
    named = [n for n, marks in BENCHMARKS.items() if rows and marks <= rows[0].data.keys()]
    if named:
        bench = load(named[0], data=path)
        titles = {p.id: p.title for p in bench.corpus}
        return [Given(t, titles.get(t.passage, "")) for t in bench.triples]
    found = [g for row in rows for g in given_row(row.data, row.where)]
    if not found:
        raise HopsmithError(f"{name} holds no triples")
    return found
