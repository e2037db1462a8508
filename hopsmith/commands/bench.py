"""bench: how good, how fast and how large the parts are, on the user's machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError

if TYPE_CHECKING:
    from benchmarks import Benchmark
    from retrieval.bench import BenchQuestion

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Corpus = Annotated[
    str,
    typer.Argument(
        help="A folder of passages.jsonl and questions.jsonl (id, question, answer, "
        "supporting_titles: the titles of its gold passages), or a benchmark's name (with --data)."
    ),
]
Engines = Annotated[
    str | None,
    typer.Option("--engines", help="Names with commas between: colbert-ai,plaid,two-stage-pq,…"),
]
Sizes = Annotated[
    str | None,
    typer.Option(
        "--sizes", help="With synthetic: numbers of passages, such as 1000,10000: what grows how."
    ),
]
Plot = Annotated[Path | None, typer.Option("--plot", help="With --sizes: a PNG to draw.")]
Work = Annotated[
    Path | None,
    typer.Option("--work", help="Keep indexes and what was measured in this folder."),
]
Bare = Annotated[
    bool, typer.Option("--bare/--no-bare", help="Measure the encoding alone beside the builds.")
]


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="bench", help="Measure retrieval, methods or serving.")


@app.command()
def retrieval(
    corpus: Corpus,
    engines: Engines = None,
    limit: opt.Limit = None,
    data: opt.Data = None,
    checkpoint: opt.Checkpoint = None,
    sizes: Sizes = None,
    plot: Plot = None,
    work: Work = None,
    bare: Bare = True,
    seed: opt.Seed = None,
    json: opt.Json = False,
) -> None:
    """Recall, speed, size and memory of the engines, on the same questions in turns.

    The questions themselves are the queries. What is measured is kept as it is measured: when the
    bench is stopped, the same command goes on, and --work DIR keeps it for good.
    """
    from hopsmith.show import print_json
    from retrieval.bench import CONTENDERS, contenders, table

    if sizes is not None:
        _scaling(corpus, sizes, engines, limit, checkpoint, plot, work, seed or 0, json)
        return
    if plot is not None:
        raise HopsmithError("--plot draws what --sizes measures: give both or neither")
    chosen = contenders(_names(engines)) if engines else CONTENDERS
    benchmark = _benchmark(corpus, data, seed or 0)
    report = _run(
        benchmark.corpus,
        _asked(benchmark, limit),
        contenders=chosen,
        checkpoint=checkpoint,
        work=work,
        bare=bare,
    )
    if json:
        print_json({"corpus": benchmark.name, **report.as_json()})
    else:
        print(table(report))


@app.command()
def methods(
    names: Annotated[
        str | None, typer.Option("--methods", help="Names with commas between; by default all.")
    ] = None,
    latency: Annotated[
        float, typer.Option("--latency", min=0.001, help="Seconds that the LM takes for a call.")
    ] = 0.2,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Medians over so many.")] = 3,
    json: opt.Json = False,
) -> None:
    """What methods add to the LM calls they make: wall time against the longest chain of dependent
    calls, and own time a call with an LM that takes none. No LM and no index are needed.
    """
    from rich.table import Table

    from hopsmith.bench_methods import bench_methods
    from hopsmith.progress import console
    from hopsmith.show import out, print_json

    with console.status("") as status:
        report = bench_methods(_names(names or ""), latency, repeats, say=status.update)
    if json:
        print_json(report.as_json())
        return
    table = Table(
        title=f"an LM of {1000 * latency:.0f} ms a call; dspy.Predict alone takes "
        f"{report.predict_ms:.2f} ms a call, dspy.Parallel {report.parallel_ms:.2f} ms",
        title_justify="left",
        padding=(0, 0),
    )
    columns = ("LM calls", "steps", "path, s", "wall, s", "wall / path")
    for column in ("method", *columns, "own ms a call", "× Predict", "× Parallel"):
        first = column == "method"
        table.add_column(column, justify="left" if first else "right", no_wrap=first)
    for m in report.methods:
        path = (str(m.lm_calls), str(m.steps), f"{m.critical_path:.2f}", f"{m.wall:.2f}")
        own = (f"{m.own_ms:.2f}", f"{m.times_predict:.1f}", f"{m.times_parallel:.1f}")
        table.add_row(m.method, *path, f"{m.ratio:.3f}", *own)
    out.print(table)
    for name, why in report.left_out.items():
        out.print(f"left out: {name} ({why})", highlight=False)


def _run(corpus: Any, questions: Sequence[BenchQuestion], **how: Any) -> Any:
    """The bench, which prints what it has when it is stopped."""
    from retrieval.bench import bench_retrieval, so_far, table, work_folder

    work = how.pop("work")
    folder = work or work_folder(corpus, questions, how["checkpoint"])
    try:
        return bench_retrieval(
            corpus, questions, work=folder, keep=work is not None, say=_say, **how
        )
    except KeyboardInterrupt:
        print(table(so_far(corpus, questions, folder, how["contenders"])), file=sys.stderr)
        print("the same command goes on from here", file=sys.stderr)
        raise


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _names(engines: str) -> list[str]:
    return [name.strip() for name in engines.split(",") if name.strip()]


def _benchmark(corpus: str, data: Path | None, seed: int) -> Benchmark:
    from benchmarks import load
    from benchmarks.load import NAMES
    from benchmarks.retrieval_set import load_retrieval_set

    folder = Path(corpus)
    if folder.is_dir():
        return load_retrieval_set(folder)
    if corpus.partition(":")[0] not in NAMES:
        raise HopsmithError(
            f"{corpus} is no folder (of passages.jsonl and questions.jsonl) and no benchmark; "
            f"there are {', '.join(NAMES)}"
        )
    return load(corpus, data=data, seed=seed)


def _asked(benchmark: Benchmark, limit: int | None) -> list[BenchQuestion]:
    """The questions of dev, or of the only split, that have gold passages."""
    from benchmarks.subset import subset
    from retrieval.bench import BenchQuestion

    splits = benchmark.questions
    split = splits["dev"] if "dev" in splits else next(iter(splits.values()))
    with_gold = [q for q in split if q.supporting]
    return [BenchQuestion(q.question, frozenset(q.supporting)) for q in subset(with_gold, limit)]


def _scaling(
    corpus: str,
    sizes: str,
    engines: str | None,
    limit: int | None,
    checkpoint: str | None,
    plot: Path | None,
    work: Path | None,
    seed: int,
    json: bool,
) -> None:
    from benchmarks.growing import growing, lookups
    from hopsmith.show import print_json
    from retrieval.bench import BenchQuestion, contenders
    from retrieval.bench.scaling import GROWING, drawn, growth_table

    if corpus != "synthetic":
        raise HopsmithError("--sizes grows the synthetic world: hopsmith bench retrieval synthetic")
    numbers = [int(n) for n in _names(sizes) if n.isdigit()]
    if not numbers or len(numbers) != len(_names(sizes)):
        raise HopsmithError(f"--sizes {sizes!r} is no list of whole numbers, such as 1000,10000")
    chosen = contenders(_names(engines)) if engines else GROWING
    questions = [BenchQuestion(query, frozenset({gold})) for query, gold in lookups(limit, seed)]
    reports = []
    for size in sorted(numbers):
        _say(f"{size:,} passages")
        reports.append(
            _run(
                list(growing(size, seed)),
                questions,
                contenders=chosen,
                checkpoint=checkpoint,
                work=work / str(size) if work else None,
                bare=False,
            )
        )
    if plot is not None:
        drawn(reports, plot)
        _say(f"drawn: {plot}")
    if json:
        print_json({"corpus": corpus, "sizes": [report.as_json() for report in reports]})
    else:
        print(growth_table(reports))
