"""bench eval: what an evaluation costs beyond the searching that it does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopsmith.commands import options as opt
from hopsmith.commands.bench import app

PASSAGES_EACH = 3
"""Passages of the synthetic corpus for each question."""


@app.command("eval")
def evaluation(
    method: opt.Method = "decompose",
    questions: Annotated[
        int, typer.Option("--questions", min=200, help="Synthetic ones, chains of 2 to 4 hops.")
    ] = 1000,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", help="Its dev questions instead (with --data).")
    ] = None,
    data: opt.Data = None,
    index: opt.Index = None,
    engine: opt.Engine = None,
    json: opt.Json = False,
) -> None:
    """Set an evaluation's own time, retrieval included, against its searches alone.

    The oracle answers and its time is left out: what remains is hopsmith. Memory is read after
    each quarter of the questions.
    """
    from benchmarks import load, synthetic
    from hopsmith.bench_eval import RATIO_WITHIN, bench_eval
    from hopsmith.errors import HopsmithError
    from hopsmith.progress import questions_bar
    from hopsmith.serving.bench import GROWTH_WITHIN
    from hopsmith.session import retriever_for
    from hopsmith.show import print_json

    if benchmark is None:
        if data is not None:
            raise HopsmithError("--data needs --benchmark NAME, such as musique")
        world = synthetic(questions, PASSAGES_EACH * questions, kinds=("bridge",))
        asked = [q for split in world.questions.values() for q in split]
    else:
        world = load(benchmark, data=data)
        asked = list(world.questions.get("dev") or next(iter(world.questions.values())))
    retriever = retriever_for(Path(index) if index else None, world, engine, None)
    with questions_bar(f"bench eval, {method}", len(asked)) as bar:
        report = bench_eval(method, asked, retriever, lambda done, total: bar(done, total, None))
    told = report.to_json()
    if json:
        print_json(told)
        return
    print(
        f"{told['questions']} questions, {told['queries']} queries in {told['searches']} searches, "
        f"{told['lm_calls']} LM calls\n"
        f"a question: {told['own_ms']:.1f} ms without the LM, {told['bare_ms']:.1f} ms of which "
        f"the same searches take alone: {told['ratio']:.2f} times (wanted: at most "
        f"{RATIO_WITHIN})\n"
        f"memory: {', '.join(f'{m:.0f}' for m in told['memory_mib'])} MiB after each quarter "
        f"({told['memory_growth']:+.1%}; wanted: at most {GROWTH_WITHIN:+.0%})"
    )
