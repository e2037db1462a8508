"""Flags that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.errors import HopsmithError

LM = Annotated[
    str | None, typer.Option("--lm", help="local, oracle, or a LiteLLM name (openai/gpt-4.1-mini).")
]
RoleLM = Annotated[
    list[str] | None,
    typer.Option(
        "--role-lm", help="ROLE=NAME, an LM of its own for a role; hopsmith methods lists roles."
    ),
]
ApiBase = Annotated[
    str | None, typer.Option("--api-base", help="URL of an OpenAI-compatible server.")
]
LMFile = Annotated[Path | None, typer.Option("--lm-file", help="A GGUF file for --lm local.")]
Adapter = Annotated[str | None, typer.Option("--adapter", help="json or chat.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of every random choice.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Questions at once.")]
Price = Annotated[str | None, typer.Option("--price", help="IN,OUT: dollars per million tokens.")]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Ask the LM again for what it answered before.")
]
Noise = Annotated[
    float | None, typer.Option("--oracle-noise", help="How often a step of the oracle fails.")
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-calls", min=1, help="LM calls to pay for, at most.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0.0, help="Dollars to spend, at most.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Ask a few questions and estimate the rest: calls, tokens, time, money."
    ),
]
Runner = Annotated[
    str, typer.Option("--runner", help="local, or ray: spread the questions over a Ray cluster.")
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray-address", help="The cluster's; without one, started on this machine."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Index = Annotated[
    str | None, typer.Option("--index", help="An index folder, or http://HOST:PORT of a server.")
]
Retriever = Annotated[
    str | None, typer.Option("--retriever", help="An own retriever: module:factory.")
]
Graph = Annotated[
    str | None,
    typer.Option(
        "--graph", help="The corpus's graph, a file or a database URL, if not beside the index."
    ),
]
Engine = Annotated[
    str | None, typer.Option("--engine", help="Search it with another engine: exact, two-stage, …")
]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", help="Where the index's checkpoint lies, if not found by itself."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", help="COLUMN=VALUE (or !=, <, <=, >, >=): only passages that meet all of them."
    ),
]
Rerank = Annotated[
    str | None,
    typer.Option("--rerank", help="Order what was found by lm or cross-encoder:NAME; or none."),
]
RerankCandidates = Annotated[
    int | None, typer.Option("--rerank-candidates", help="How many passages --rerank orders.")
]
EmbedderBase = Annotated[
    str | None,
    typer.Option("--embedder-base", help="URL of the OpenAI-compatible server that embeds."),
]
Pipeline = Annotated[
    Path | None, typer.Option("--pipeline", help="An exported pipeline instead of a method.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Take an index that differs from the one measured; say how.")
]
Method = Annotated[str, typer.Option("--method", help="One that hopsmith methods lists.")]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        help="Bounds of a question and roles that think first, such as passages=5,hops=3 or "
        "think=planner; hopsmith methods lists the knobs and roles of each method.",
    ),
]
Arg = Annotated[
    list[str] | None,
    typer.Option(
        "--arg", help="NAME=VALUE for the method's constructor; hopsmith methods lists them."
    ),
]
Bench = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        help="synthetic[:N[,PASSAGES]], hotpotqa, musique, 2wikimultihopqa, morehopqa, "
        "frames, multihop-rag, or own (the default with files).",
    ),
]
Data = Annotated[Path | None, typer.Option("--data", help="A file of questions.")]
Corpus = Annotated[Path | None, typer.Option("--corpus", help="The corpus of own questions.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only so many questions, kinds in proportion.")
]


def settings_flags(
    *,
    lm: str | None = None,
    role_lm: list[str] | None = None,
    api_base: str | None = None,
    lm_file: Path | None = None,
    adapter: str | None = None,
    seed: int | None = None,
    workers: int | None = None,
    price: str | None = None,
    no_cache: bool = False,
    oracle_noise: float | None = None,
    index: str | None = None,
    retriever: str | None = None,
    graph: str | None = None,
    embedder_base: str | None = None,
    rerank: str | None = None,
    rerank_candidates: int | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
) -> Any:
    """Settings from the flags given."""
    from hopsmith.settings import load_settings, role_lms

    return load_settings(
        lm=lm,
        role_lm=role_lms(role_lm),
        api_base=api_base,
        lm_file=lm_file,
        adapter=adapter,
        seed=seed,
        workers=workers,
        price=price,
        lm_cache=False if no_cache else None,
        oracle_noise=oracle_noise,
        index=index,
        graph=graph,
        retriever=retriever,
        embedder_base=embedder_base,
        rerank=rerank,
        rerank_candidates=rerank_candidates,
        max_calls=max_calls,
        max_cost=max_cost,
    )


def changing(rerank: str | None) -> str | None:
    """A ``--rerank`` that says more than where a cross-encoder lies."""
    return None if (rerank or "").startswith("cross-encoder:") else rerank


def is_ray(runner: str) -> bool:
    """Raises ``HopsmithError`` for a runner that there isn't."""
    from hopsmith.errors import HopsmithError

    if runner not in ("local", "ray"):
        raise HopsmithError(f"--runner {runner!r}: there are local and ray")
    return runner == "ray"


def on_command_line(context: typer.Context, name: str) -> bool:
    """Whether a flag that has a default was given."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def alone(pipeline: Path | None, **flags: Any) -> None:
    """Refuse flags that an exported pipeline has settled already."""
    from hopsmith.errors import HopsmithError

    given = [f"--{name}" for name, value in flags.items() if value]
    if pipeline is not None and given:
        raise HopsmithError(
            f"{' and '.join(given)} can't change an exported pipeline: leave --pipeline or "
            f"{'them' if len(given) > 1 else 'it'} out"
        )


def arguments(pairs: list[str] | None, flag: str = "--arg") -> dict[str, Any]:
    """``NAME=VALUE`` pairs; a value that is JSON is read as such."""
    import json

    from hopsmith.errors import HopsmithError

    out: dict[str, Any] = {}
    for pair in pairs or []:
        name, eq, value = pair.partition("=")
        if not eq:
            raise HopsmithError(f"{flag} {pair!r} is not NAME=VALUE")
        try:
            out[name] = json.loads(value)
        except json.JSONDecodeError:
            out[name] = value
    return out


def method_arguments(method: str, pairs: list[str] | None) -> dict[str, Any]:
    """``--arg`` pairs for a method. Raises ``ProgramError`` for one that it doesn't take."""
    from programs import method as method_of
    from programs.arguments import check_arguments

    given = arguments(pairs)
    check_arguments(method, method_of(method), given)
    return given


def no_file(out: Path | None) -> None:
    """Raise ``HopsmithError`` where ``--out`` is a file and should be a folder."""
    if out is not None and out.exists() and not out.is_dir():
        raise HopsmithError(f"--out {out} is a file: give a folder")
