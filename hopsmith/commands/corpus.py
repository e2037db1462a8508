"""index, add, delete, search: the corpus and its index."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError
from retrieval import Passage
from retrieval.documents import Cut

CUT = Cut()


def register(app: typer.Typer) -> None:
    app.command()(index)
    app.command()(add)
    app.command()(delete)
    app.command()(compact)
    app.command()(search)


def index(
    corpus: Annotated[
        str,
        typer.Argument(
            help="JSONL or CSV (id, title, text), a folder of documents (PDF, DOCX, HTML, "
            "Markdown, text), or a benchmark's name."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The index folder to make.")],
    engine: Annotated[
        str, typer.Option("--engine", help="auto, exact, two-stage, plaid, dense, bm25 or qdrant.")
    ] = "auto",
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", help="A ColBERT checkpoint: a folder or a hub name."),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            help="Embed by PROVIDER/MODEL (openai/text-embedding-3-small) or module:function, "
            "instead of a checkpoint.",
        ),
    ] = None,
    embedder_base: opt.EmbedderBase = None,
    vectors: Annotated[
        str, typer.Option("--vectors", help="float16, or pq: at most 64 bytes a token.")
    ] = "float16",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--setting",
            help="NAME=VALUE of the two-stage engine: pool, lexical_share, fusion_constant, "
            "maxsim_weight, lexical_weight, pooled_weight.",
        ),
    ] = None,
    passage_words: Annotated[
        int | None,
        typer.Option(
            "--passage-words", help=f"Length of documents' passages; by default {CUT.words}."
        ),
    ] = None,
    overlap: Annotated[
        int | None,
        typer.Option(
            "--overlap",
            help=f"Words that a passage repeats of the one before it; by default {CUT.overlap}.",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace the index; it answers until the new one is whole."
        ),
    ] = False,
    url: Annotated[
        str | None, typer.Option("--url", help="With --engine qdrant: the server's address.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", help="With --engine qdrant: its name there.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option("--shards", min=1, help="Of a Qdrant cluster's collection.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=1, help="Copies of each of its shards.")
    ] = None,
    seed: opt.Seed = None,
    json: opt.Json = False,
) -> None:
    """Encode a corpus into an index folder.

    HOPSMITH_EMBEDDER_KEY is the key for --embedder; by default it is the provider's own variable.
    Killed, the same command goes on with what was embedded.
    """
    from hopsmith.progress import passages_bar
    from retrieval import build_index

    opt.settings_flags(embedder_base=embedder_base)
    cut = None
    if passage_words is not None or overlap is not None:
        words = CUT.words if passage_words is None else passage_words
        cut = Cut(words, min(CUT.overlap, words // 2) if overlap is None else overlap)
    passages, total = _corpus(corpus, seed or 0, cut)
    build: Callable[..., Any]
    if engine == "qdrant":
        build = _into_qdrant(url, collection, out, shards, replicas, vectors, embedder)
    elif url or collection or shards or replicas:
        raise HopsmithError("--url, --collection, --shards and --replicas go with --engine qdrant")
    else:
        build = partial(build_index, engine=engine, vectors=vectors, embedder=embedder)
    with passages_bar(total, corpus=passages) as progress:
        report = build(
            passages,
            out,
            checkpoint=checkpoint,
            settings=opt.arguments(setting, "--setting"),
            total=total,
            progress=progress,
            overwrite=overwrite,
        )
    _say_report(report, f"indexed {report.passages:,} passages", json, passages)


def _into_qdrant(
    url: str | None,
    collection: str | None,
    out: Path,
    shards: int | None,
    replicas: int | None,
    vectors: str,
    embedder: str | None,
) -> Callable[..., Any]:
    """``build_index``'s counterpart over a collection, by default named as the folder is."""
    from retrieval.qdrant import build_qdrant

    if url is None:
        raise HopsmithError("--engine qdrant needs --url, such as http://localhost:6333")
    if vectors != "float16":
        raise HopsmithError("--engine qdrant keeps vectors as float16: leave --vectors out")
    if embedder is not None:
        raise HopsmithError("--engine qdrant needs token vectors: leave --embedder out")
    return partial(
        build_qdrant,
        url=url,
        collection=collection or out.absolute().name,
        shards=shards,
        replicas=replicas,
    )


def add(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An index folder.")],
    corpus: Annotated[
        str, typer.Argument(help="What to add: JSONL, CSV, or a folder of documents.")
    ],
    checkpoint: opt.Checkpoint = None,
    embedder_base: opt.EmbedderBase = None,
    json: opt.Json = False,
) -> None:
    """Add passages to an index without rebuilding it. Documents that changed since they were
    indexed replace what they were."""
    from hopsmith.progress import passages_bar
    from retrieval import add_passages
    from retrieval.opening import cut_of

    opt.settings_flags(embedder_base=embedder_base)
    known = cut_of(folder)
    passages, total = _corpus(corpus, 0, Cut(**known) if known else None, as_before=True)
    with passages_bar(total, corpus=passages) as progress:
        report = add_passages(folder, passages, checkpoint=checkpoint, progress=progress)
    gone = f", removed {report.removed:,}" if report.removed else ""
    _say_report(report, f"added {report.changed:,} passages{gone}", json, passages)


def delete(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An index folder.")],
    ids: Annotated[list[str] | None, typer.Argument(help="Passage ids.")] = None,
    where: opt.Where = None,
    json: opt.Json = False,
) -> None:
    """Take passages out of an index: by id, or all that meet --where (source=report.pdf)."""
    from retrieval import delete_passages, open_index
    from retrieval.qdrant import is_qdrant, open_qdrant

    gone = list(ids or [])
    if where:
        opened = open_qdrant(folder) if is_qdrant(folder) else open_index(folder, engine="bm25")
        gone += [p.id for p in opened.where(*where).corpus()]
    if not gone:
        raise HopsmithError("nothing to delete: give ids, or a --where that some passage meets")
    report = delete_passages(folder, gone)
    _say_report(report, f"deleted {report.changed:,} passage{'s' * (report.changed != 1)}", json)


def compact(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An index folder.")],
    json: opt.Json = False,
) -> None:
    """Merge an index's segments and drop what was deleted. Adding and deleting do so by themselves
    when it pays."""
    from retrieval import compact as merge

    report = merge(folder)
    _say_report(report, f"compacted to {report.passages:,} passages", json)


def search(
    queries: Annotated[list[str] | None, typer.Argument(help="Queries.")] = None,
    file: Annotated[Path | None, typer.Option("--queries", help="A file, a query a line.")] = None,
    index: opt.Index = None,
    own: opt.Retriever = None,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    where: opt.Where = None,
    rerank: opt.Rerank = None,
    rerank_candidates: opt.RerankCandidates = None,
    k: Annotated[int, typer.Option("--k", help="Passages per query.")] = 5,
    lm: opt.LM = None,
    api_base: opt.ApiBase = None,
    json: opt.Json = False,
) -> None:
    """Search an index. --lm is what --rerank lm asks."""
    from hopsmith.reranking import LM
    from hopsmith.session import retriever_for, session
    from hopsmith.show import out, print_json

    asked = list(queries or [])
    if file is not None:
        if not file.is_file():
            raise HopsmithError(f"--queries {file}: there is no such file")
        try:
            asked += [line for line in file.read_text("utf-8").splitlines() if line.strip()]
        except UnicodeDecodeError as fault:
            raise HopsmithError(
                f"--queries {file} is no UTF-8 (byte {fault.start}): save the file as UTF-8"
            ) from None
    if not asked:
        raise HopsmithError('no query: hopsmith search "query" --index DIR')
    settings = opt.settings_flags(
        index=index,
        retriever=own,
        rerank=rerank,
        rerank_candidates=rerank_candidates,
        lm=lm,
        api_base=api_base,
    )
    retriever = retriever_for(
        settings.index, None, engine, checkpoint, where, settings.retriever, settings
    )
    with session(settings) if settings.rerank == LM else nullcontext():
        results = retriever.search(asked, k)
    if json:
        print_json(
            {
                "results": [[_found(p) for p in found] for found in results],
            }
        )
        return
    for query, found in zip(asked, results, strict=True):
        out.print(f"[bold]{escape(query)}[/bold]")
        for p in found:
            out.print(f"{p.rank:3}  {p.score:.3f}  {escape(p.cited)}", highlight=False)
            out.print(f"     [dim]{escape(' '.join(p.text[:160].split()))}[/dim]", highlight=False)


def _found(passage: Passage) -> dict[str, Any]:
    row = {"id": passage.id, "title": passage.title, "score": round(passage.score, 6)}
    metadata = {"metadata": dict(passage.metadata)} if passage.metadata else {}
    return {**row, "rank": passage.rank, **metadata}


def _corpus(
    name: str, seed: int, cut: Cut | None = None, *, as_before: bool = False
) -> tuple[Iterable[Passage], int | None]:
    """Passages and, where it is cheap to know, their number. Raises ``HopsmithError`` for a ``cut``
    of what isn't cut, unless it is the one that the index had ``as_before``."""
    from benchmarks import load
    from benchmarks.load import NAMES
    from retrieval import read_corpus
    from retrieval.documents import DocumentCorpus

    path = Path(name)
    if not path.exists() and name.partition(":")[0] in NAMES:
        benchmark = load(name, seed=seed)
        return benchmark.corpus, len(benchmark.corpus)
    passages = read_corpus(path, lambda line: print(line, file=sys.stderr), cut)
    if isinstance(passages, DocumentCorpus):
        return passages, None
    if cut is not None and not as_before:
        raise HopsmithError(
            f"{name} holds passages: --passage-words and --overlap are for documents alone"
        )
    with path.open("rb") as opened:
        return passages, sum(1 for line in opened if line.strip())


def _say_report(report: Any, line: str, json: bool, corpus: Any = None) -> None:
    """``corpus`` may know of documents that were skipped."""
    from hopsmith.show import print_json
    from retrieval.documents import DocumentCorpus

    documents: dict[str, Any] = {}
    if isinstance(corpus, DocumentCorpus):
        documents = {
            "skipped": len(corpus.skipped),
            "skipped_files": [{"source": s.source, "why": s.why} for s in corpus.skipped],
            "other_files": sum(corpus.others.values()),
            "removed": report.removed,
        }
        if corpus.others:
            kinds = ", ".join(sorted(corpus.others))
            print(f"not read: {documents['other_files']} of other kinds ({kinds})", file=sys.stderr)
        if corpus.skipped:
            print(f"skipped documents, named above: {len(corpus.skipped)}", file=sys.stderr)
    if json:
        print_json(
            {
                "index": str(report.folder),
                "engine": report.engine,
                "passages": report.passages,
                "changed": report.changed,
                "bytes_per_passage": round(report.bytes_per_passage, 1),
                "corpus_hash": report.corpus_hash,
                **documents,
            }
        )
        return
    print(
        f"{line}: {report.folder} ({report.engine}, {report.passages:,} passages, "
        f"{report.bytes_per_passage / 1000:.1f} kB each)"
    )
