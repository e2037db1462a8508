"""train-retriever: fine-tune the retriever's checkpoint on questions with gold passages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError
from optimize.retriever_examples import DevSet, TrainingSet
from optimize.retriever_record import Look, Trained
from optimize.retriever_training import TrainSettings, Watcher

DEFAULT = TrainSettings()
HELD_OUT = 0.1
"""Share of the training questions that is watched where no dev file is given."""


def register(app: typer.Typer) -> None:
    app.command("train-retriever")(train_retriever)


def train_retriever(
    train: Annotated[
        list[str],
        typer.Option(
            "--train",
            metavar="[BENCHMARK=]FILE",
            help="Training questions; several files are balanced: --train musique=train.jsonl.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The checkpoint's folder.")],
    dev: Annotated[
        list[str] | None,
        typer.Option(
            "--dev",
            metavar="[BENCHMARK=]FILE",
            help="Questions to choose by; else a tenth of the training questions.",
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            "--index",
            help="Index of the corpus; hard negatives are what it finds. Without it the files' own "
            "paragraphs are searched by words.",
        ),
    ] = None,
    engine: opt.Engine = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", help="What to train; by default the index's checkpoint."),
    ] = None,
    corpus: opt.Corpus = None,
    dim: Annotated[
        int | None, typer.Option("--dim", help="Learn a projection to so many dimensions.")
    ] = DEFAULT.dim,
    steps: Annotated[int, typer.Option("--steps", help="Steps, at most.")] = DEFAULT.steps,
    batch: Annotated[int, typer.Option("--batch", help="Queries a step.")] = DEFAULT.batch,
    negatives: Annotated[
        int, typer.Option("--negatives", help="Hard negatives a query.")
    ] = DEFAULT.negatives,
    rate: Annotated[float, typer.Option("--rate", help="Highest learning rate.")] = DEFAULT.rate,
    frozen: Annotated[
        int, typer.Option("--frozen", help="Lower layers that stay as they are: faster.")
    ] = DEFAULT.frozen,
    passage_tokens: Annotated[
        int, typer.Option("--passage-tokens", help="Where passages are cut in training.")
    ] = DEFAULT.passage_tokens,
    every: Annotated[
        int, typer.Option("--every", help="Steps between two looks at dev.")
    ] = DEFAULT.every,
    patience: Annotated[
        int, typer.Option("--patience", help="Looks without a better one before it stops.")
    ] = DEFAULT.patience,
    dev_passages: Annotated[
        int, typer.Option("--dev-passages", min=5, help="Passages of a dev set's pool, at most.")
    ] = 1000,
    tracking_uri: Annotated[
        str | None,
        typer.Option("--tracking-uri", help="MLflow; by default a store in OUT/training."),
    ] = None,
    experiment: Annotated[str, typer.Option("--experiment", help="MLflow's.")] = "hopsmith",
    seed: opt.Seed = None,
    json: opt.Json = False,
) -> None:
    """Train the retriever on your questions; hopsmith index --checkpoint takes the result.

    Killed, it goes on from the last look at dev when started again with the same arguments.
    Recall is by exact MaxSim over each dev set's pool (--dev-passages).
    """
    from hopsmith.show import print_json
    from optimize.retriever_training import claim
    from optimize.retriever_training import train_retriever as run_training
    from optimize.tracking import Tracker, local_uri

    random_state = opt.settings_flags(seed=seed).seed
    settings = TrainSettings(
        steps=steps,
        batch=batch,
        negatives=negatives,
        rate=rate,
        frozen=frozen,
        passage_tokens=passage_tokens,
        dim=dim,
        every=every,
        patience=patience,
        seed=random_state,
    )
    training, watched = _sets(train, dev or [], index, engine, corpus, dev_passages, random_state)
    spec = _checkpoint(index, checkpoint)
    left_out = [f"{s.name}: {fault}" for s in training for fault in s.faults]
    left_out += [f"{s.name}: {fault}" for s in watched for fault in s.faults]
    if left_out:
        print(f"{len(left_out)} questions are left out, the first: {left_out[0]}", file=sys.stderr)
    work = claim(spec, training, watched, out, settings)
    uri = tracking_uri or local_uri(work)
    tracker = Tracker(uri, experiment, work / "spool")
    printer = Printer()
    try:
        with tracker.run("train-retriever", "train-retriever") as run:
            run.params(_params(settings, spec.name, training, watched))
            done = run_training(
                spec, training, watched, out, settings=settings, run=run, watcher=printer
            )
            run.metrics(
                {"best_dev_recall@5": done.best.mean, "first_dev_recall@5": done.first.mean}
            )
            run.json("result.json", done.to_json())
    finally:
        printer.end()
        undelivered = tracker.close()
        if undelivered:
            print(undelivered, file=sys.stderr)
    rows = _rows(done)
    if json:
        print_json(
            {
                "checkpoint": str(out),
                "recall@5": {"before": done.first.mean, "after": done.best.mean, "sets": rows},
                "step": done.best.step,
                "share": done.best.share,
                "steps": done.steps,
                "stopped_early": done.stopped_early,
                "seconds": round(done.seconds, 1),
                "left_out": len(left_out),
                "mlflow": tracker.run_id("train-retriever"),
            }
        )
        return
    _print(done, rows, uri)


def _sets(
    train: list[str],
    dev: list[str],
    index: Path | None,
    engine: str | None,
    corpus: Path | None,
    dev_passages: int,
    seed: int,
) -> tuple[list[TrainingSet], list[DevSet]]:
    from benchmarks import load, subset
    from hopsmith.session import cached_index
    from optimize.retriever_examples import dev_set, training_set
    from retrieval import open_index

    given = open_index(index, engine=engine) if index is not None else None

    def read(named: str, split: str) -> tuple[str, list[Any], Any]:
        benchmark, path = _named(named)
        found = load(benchmark, data=path, split=split, corpus=corpus)
        retriever = given
        if retriever is None:
            if not len(found.corpus):
                raise HopsmithError(
                    f"{path} brings no passages: give the index of its corpus with --index DIR"
                )
            retriever = open_index(cached_index(found, engine="bm25"))
        return benchmark, list(found.split(split)), retriever

    training: list[TrainingSet] = []
    watched: list[DevSet] = []
    for named in train:
        benchmark, questions, retriever = read(named, "train")
        name = _free(benchmark, [s.name for s in training])
        if not dev:
            held = subset(questions, max(1, round(HELD_OUT * len(questions))), seed)
            out = {q.id for q in held}
            questions = [q for q in questions if q.id not in out]
            watched.append(dev_set(name, held, retriever, dev_passages))
        training.append(training_set(name, questions, retriever))
    for named in dev:
        benchmark, questions, retriever = read(named, "dev")
        name = _free(benchmark, [s.name for s in watched])
        watched.append(dev_set(name, questions, retriever, dev_passages))
    return training, watched


def _named(value: str) -> tuple[str, Path]:
    """``[BENCHMARK=]FILE``."""
    from benchmarks import NAMES

    name, equals, rest = value.partition("=")
    if not equals or name not in NAMES:
        name, rest = "own", value
    path = Path(rest)
    if not path.is_file():
        raise HopsmithError(f"{value}: there is no such file; give [BENCHMARK=]FILE")
    return name, path


def _free(name: str, taken: list[str]) -> str:
    """``name``, or with a number where several files are of one benchmark."""
    if name not in taken:
        return name
    return next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)


def _checkpoint(index: Path | None, named: str | None) -> Any:
    """What is trained: named, else the index's, else the default. Raises ``IndexFault``."""
    from retrieval.checkpoint import checkpoint, checkpoint_of
    from retrieval.manifest import Manifest

    if named is None and index is not None:
        manifest = Manifest.read(index)
        if manifest.encoder is not None:
            return checkpoint_of(manifest.encoder, manifest.checkpoint)
    return checkpoint(named)


def _params(
    settings: TrainSettings, checkpoint: str, train: list[TrainingSet], dev: list[DevSet]
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **asdict(settings),
        "checkpoint": checkpoint,
        **{f"train_{s.name}": len(s.questions) for s in train},
        **{f"dev_{s.name}": f"{len(s.queries)} over {len(s.pool)} passages" for s in dev},
    }


def _rows(done: Trained) -> dict[str, dict[str, float]]:
    """Dev recall by set, before and after, with the paired bootstrap's interval."""
    from metrics.significance import paired

    rows = {}
    for name, before in done.first.scores.items():
        gap = paired(list(before), list(done.best.scores[name]))
        rows[name] = {
            "n": gap.n,
            "before": gap.baseline,
            "after": gap.other,
            "difference": gap.difference,
            "low": gap.low,
            "high": gap.high,
        }
    return rows


def _print(done: Trained, rows: dict[str, dict[str, float]], uri: str) -> None:
    from rich.table import Table

    from hopsmith.show import out

    table = Table(title="recall@5 of the dev pools", title_justify="left")
    for column in ("set", "n", "before", "after", "difference, 95 % interval"):
        table.add_column(column, justify="left" if column == "set" else "right")
    for name, row in rows.items():
        table.add_row(
            name,
            str(row["n"]),
            f"{row['before']:.3f}",
            f"{row['after']:.3f}",
            f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]",
        )
    out.print(table)
    early = ", stopped early" if done.stopped_early else ""
    mixed = "" if done.best.share == 1.0 else f", {done.best.share:.0%} of the way to it"
    out.print(
        f"best: step {done.best.step} of {done.steps}{mixed}{early}; {done.seconds / 60:.0f} min",
        highlight=False,
    )
    out.print(f"checkpoint: {done.checkpoint}", highlight=False)
    out.print(
        f"use it: hopsmith index CORPUS --checkpoint {done.checkpoint} --out INDEX", highlight=False
    )
    out.print(f"see the run: mlflow ui --backend-store-uri {uri}", highlight=False)


class Printer(Watcher):
    """Says on stderr how training goes."""

    def __init__(self) -> None:
        from hopsmith.progress import console

        self._console = console
        self._status: Any = None

    def step(self, done: int, of: int, loss: float) -> None:
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(f"step {done} of {of}, loss {loss:.3f}")

    def look(self, look: Look) -> None:
        self.end()
        by_set = ", ".join(f"{name} {value:.3f}" for name, value in look.recall.items())
        share = "" if look.share == 1.0 else f", {look.share:.0%} of the way"
        self._console.print(
            f"step {look.step}{share}: dev recall@5 {look.mean:.3f} ({by_set})", highlight=False
        )

    def say(self, line: str) -> None:
        self.end()
        self._console.print(line, highlight=False)

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
