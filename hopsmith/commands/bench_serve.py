"""bench serve: how a server bears load."""

from __future__ import annotations

from typing import Annotated

import typer

from hopsmith.commands import options as opt
from hopsmith.commands.bench import app


@app.command()
def serve(
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=256, help="Questions answered at once.")
    ] = 16,
    requests: Annotated[
        int, typer.Option("--requests", min=40, help="Questions to answer under load.")
    ] = 2000,
    lm_ms: Annotated[
        int, typer.Option("--lm-ms", min=0, help="What a call of the scripted LM takes.")
    ] = 200,
    method: opt.Method = "decompose",
    json: opt.Json = False,
) -> None:
    """Load a server with four times the clients that it answers at once.

    A scripted LM answers, over a BM25 index: what is measured is the server. Exit code 1 when a
    request ended without an answer and without a 429.
    """
    from hopsmith.errors import RunFailed
    from hopsmith.progress import questions_bar
    from hopsmith.serving.bench import GROWTH_WITHIN, P95_WITHIN, bench_serve
    from hopsmith.show import print_json

    with questions_bar(f"bench serve, {method}", requests) as bar:
        report = bench_serve(
            concurrency=concurrency,
            requests=requests,
            lm_seconds=lm_ms / 1000,
            method=method,
            progress=lambda done, total: bar(done, total, None),
        )
    told = report.to_json()
    if json:
        print_json(told)
    else:
        alone, loaded = told["alone"], told["loaded"]
        print(
            f"{told['clients']} clients, {concurrency} questions at once, LM {lm_ms} ms a call\n"
            f"alone:  p50 {alone['p50']:.3f} s, p95 {alone['p95']:.3f} s\n"
            f"loaded: p50 {loaded['p50']:.3f} s, p95 {loaded['p95']:.3f} s, "
            f"{loaded['per_second']:.1f} answers a second; {loaded['answered']} answered, "
            f"{loaded['refused']} refused with 429, {loaded['lost']} lost\n"
            f"p95 is {told['p95_ratio']:.2f} times the one alone (wanted: at most {P95_WITHIN})\n"
            f"memory: {', '.join(f'{m:.0f}' for m in told['memory_mib'])} MiB after each quarter "
            f"({told['memory_growth']:+.1%}; wanted: at most {GROWTH_WITHIN:+.0%})"
        )
    if report.loaded.lost:
        raise RunFailed(f"{report.loaded.lost} requests were lost: {dict(report.loaded.statuses)}")
