"""graph: a graph of a corpus, from an LM pass over its passages or from triples that it brings."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError

KINDS: Mapping[str, tuple[Literal["triples", "propositions"], ...]] = {
    "triples": ("triples",),
    "propositions": ("propositions",),
    "both": ("triples", "propositions"),
    "none": (),
}
MAX_TOKENS = 2000
"""Of one reply, where the settings don't say: a passage's triples take more than an answer."""


def register(app: typer.Typer) -> None:
    app.command()(graph)


def graph(
    index: opt.Index = None,
    graph: opt.Graph = None,
    triples: Annotated[
        str | None,
        typer.Option(
            "--triples",
            help="Triples or links that are there already: CSV, TSV or JSONL (subject, relation, "
            "object; or source, target), a 2WikiMultiHopQA or MuSiQue file, or synthetic. No LM "
            "is asked. Replaces what --triples or --links gave before.",
        ),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            "--links",
            help="A column of the passages that names those they refer to. Replaces what --links "
            "or --triples gave before.",
        ),
    ] = None,
    extract: Annotated[
        str | None,
        typer.Option(
            "--extract",
            help="What the LM reads: triples (the default without --triples and --links), "
            "propositions, both or none.",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", help="JSON: the types of entities and relations to use."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Read only so many passages now.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Read all passages anew.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take, and do nothing.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            help="Right triples, as for --triples, to compare those with that an LM read.",
        ),
    ] = None,
    lm: opt.LM = None,
    role_lm: opt.RoleLM = None,
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    adapter: opt.Adapter = None,
    seed: opt.Seed = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            help="Passages at once; HOPSMITH_IN_FLIGHT (16) bounds the calls to one endpoint.",
        ),
    ] = None,
    price: opt.Price = None,
    no_cache: opt.NoCache = False,
    oracle_noise: opt.Noise = None,
    json: opt.Json = False,
) -> None:
    """Make or renew the graph of an index: who is linked to whom, and which passage says so.

    Passages that were read before are not read again; what changed or went takes its triples along.
    """
    from hopsmith.graphs import Sources, make_graph
    from hopsmith.progress import passages_bar
    from programs.knowledge.schema import GraphSchema

    what = extract or ("none" if triples or links else "triples")
    if what not in KINDS:
        raise HopsmithError(f"--extract {extract}: there are {', '.join(KINDS)}")
    settings = opt.settings_flags(
        lm=lm,
        role_lm=role_lm,
        api_base=api_base,
        lm_file=lm_file,
        adapter=adapter,
        seed=seed,
        workers=workers,
        price=price,
        no_cache=no_cache,
        oracle_noise=oracle_noise,
        index=index,
        graph=graph,
    )
    if settings.index is None:
        raise HopsmithError("no index: hopsmith graph --index DIR")
    if "max_tokens" not in settings.model_fields_set:
        settings = settings.model_copy(update={"max_tokens": MAX_TOKENS})
    made = make_graph(
        _opened(settings.index),
        settings,
        Sources(triples, links, check),
        kinds=KINDS[what],
        schema=GraphSchema.read(schema) if schema is not None else None,
        limit=limit,
        again=again,
        dry_run=dry_run,
        say=lambda line: print(line, file=sys.stderr),
        bar=passages_bar,
    )
    _show(made, json)


def _opened(index: str) -> Any:
    """An index whose passages can be listed, without its encoder where it can do without."""
    from retrieval import open_retriever
    from retrieval.manifest import Manifest

    words = "://" not in index and Manifest.read(Path(index)).lexical is not None
    return open_retriever(index, engine="bm25" if words else None)


def _show(made: Any, json: bool) -> None:
    from rich.table import Table

    from hopsmith.show import number, out, print_json

    if json:
        print_json(made.to_json())
        return
    if made.counts is None:
        return
    held = ", ".join(f"{n:,} {what}" for what, n in made.counts.items())
    out.print(f"{made.place}: {held}", highlight=False)
    if made.coverage:
        table = Table(title="entities with edges of their own, by type", title_justify="left")
        for column in ("type", "entities", "with edges", "share", "edges"):
            table.add_column(column, justify="left" if column == "type" else "right")
        for kind, c in made.coverage.items():
            table.add_row(kind, str(c.entities), str(c.led_on), number(c.share), str(c.edges))
        out.print(table)
    if made.check is not None:
        shares = ", ".join(
            f"{name} {number(v) or 'n/a'}" for name, v in made.check.shares().items()
        )
        out.print(
            f"against {made.check.given:,} given triples: {shares} (precision on the "
            f"{made.check.compared:,} extracted with a given subject and relation)",
            highlight=False,
        )
