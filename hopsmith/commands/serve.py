"""serve: pipelines behind HTTP, with a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    exports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPORT",
            help="Export folders, or models:/NAME@ALIAS of MLflow's registry; NAME=EXPORT names "
            "one. The first is the default.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Serve a method as it is, too. See hopsmith methods."),
    ] = None,
    index: opt.Index = None,
    graph: opt.Graph = None,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    where: opt.Where = None,
    retriever: opt.Retriever = None,
    rerank: opt.Rerank = None,
    rerank_candidates: opt.RerankCandidates = None,
    force: opt.Force = False,
    budget: opt.Budget = None,
    arg: opt.Arg = None,
    host: Annotated[
        str, typer.Option("--host", help="Others than loopback need HOPSMITH_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 8080,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, max=256, help="Questions at once."),
    ] = None,
    queue: Annotated[
        int | None,
        typer.Option("--queue", min=0, help="Questions that may wait; as many by default."),
    ] = None,
    queue_seconds: Annotated[
        float | None,
        typer.Option(
            "--queue-seconds",
            min=0.0,
            help="How long one waits before 429; by default a fifth of what a question takes.",
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", min=0.1, help="Seconds a question may take; 120 by default."),
    ] = None,
    canary: Annotated[
        str | None,
        typer.Option("--canary", help="The question that a reloaded pipeline is tried on."),
    ] = None,
    canary_answer: Annotated[
        str | None, typer.Option("--canary-answer", help="What its answer must hold.")
    ] = None,
    log_dir: Annotated[
        Path | None,
        typer.Option("--log-dir", help="Keep questions, answers and thumbs in this folder."),
    ] = None,
    log_sample: Annotated[
        float, typer.Option("--log-sample", min=0.0, max=1.0, help="The share that is kept.")
    ] = 1.0,
    redact: Annotated[
        str | None,
        typer.Option("--redact", help="MODULE:FUNCTION that is given a record before it is kept."),
    ] = None,
    log_questions: Annotated[
        bool, typer.Option("--log-questions", help="Write questions and answers to the log.")
    ] = False,
    lm: opt.LM = None,
    role_lm: opt.RoleLM = None,
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    adapter: opt.Adapter = None,
    seed: opt.Seed = None,
    price: opt.Price = None,
    json: opt.Json = False,
) -> None:
    """Serve pipelines: an API, OpenAI's chat API, and a page at /.

    HOPSMITH_TOKEN is the bearer token that clients must send, HOPSMITH_ADMIN_TOKEN the one for
    /admin/reload. SIGHUP loads the exports anew, SIGTERM stops when what is under way is finished.
    """
    import sys

    from hopsmith.errors import HopsmithError
    from hopsmith.lm import ORACLE
    from hopsmith.serving.app import create_app
    from hopsmith.serving.catalogue import Canary, Catalogue
    from hopsmith.serving.journal import Journal, redaction
    from hopsmith.serving.limits import Limits
    from hopsmith.serving.metrics import Metrics
    from hopsmith.serving.server import address, check_host, listen, log_to_stderr, run
    from hopsmith.serving.service import Service
    from hopsmith.session import retriever_for
    from hopsmith.show import print_json
    from retrieval.wire import is_url

    settings = opt.settings_flags(
        lm=lm,
        role_lm=role_lm,
        api_base=api_base,
        lm_file=lm_file,
        adapter=adapter,
        seed=seed,
        price=price,
        no_cache=True,
        index=index,
        graph=graph,
        retriever=retriever,
        rerank=rerank,
        rerank_candidates=rerank_candidates,
    )
    token, admin_token = _secret(settings.token), _secret(settings.admin_token)
    check_host(host, token)
    if not exports and not method:
        raise HopsmithError("nothing to serve: give an EXPORT, or --method NAME")
    if settings.lm == ORACLE:
        raise HopsmithError("--lm oracle answers a benchmark's questions only: name another LM")
    if settings.index is None and settings.retriever is None:
        raise HopsmithError("no index: give --index DIR (hopsmith index CORPUS --out DIR makes it)")
    at_once = concurrency or settings.at_once
    limits = Limits(
        concurrency=at_once,
        queue=at_once if queue is None else queue,
        queue_seconds=queue_seconds,
        seconds=deadline or settings.deadline or 120.0,
    )
    journal = Journal(log_dir, log_sample, redaction(redact)) if log_dir is not None else None
    metrics = Metrics()
    catalogue = Catalogue(
        sources(exports or [], method or [], settings, engine, force, budget, arg),
        lambda wanted: retriever_for(
            settings.index,
            None,
            engine if is_url(settings.index) else wanted,
            checkpoint,
            where,
            settings.retriever,
        ),
        seconds=limits.seconds,
        canary=Canary(canary, canary_answer),
        told=lambda seconds: metrics.stage("retrieval", seconds),
    )
    service = Service(catalogue, limits, metrics, journal, log_questions=log_questions)
    app = create_app(service, token=token, admin_token=admin_token)
    bound = listen(host, port)
    log_to_stderr()

    def ready() -> None:
        names = [served.name for served in catalogue.every]
        if json:
            print_json({"url": address(bound), "pipelines": names})
            sys.stdout.flush()
        print(f"serving {', '.join(names)} at {address(bound)}", file=sys.stderr, flush=True)

    run(app, bound, ready)


def _secret(value: Any) -> str | None:
    return value.get_secret_value() if value is not None else None


def sources(
    exports: list[str],
    methods: list[str],
    settings: Any,
    engine: str | None,
    force: bool,
    budget: str | None,
    arg: list[str] | None,
) -> list[Any]:
    """What the words on the command line name."""
    from hopsmith.errors import HopsmithError
    from hopsmith.knowledge import GraphPlace
    from hopsmith.lm import make_adapter, make_lm
    from hopsmith.reranking import reranked
    from hopsmith.serving.pipelines import ExportSource, MethodSource
    from hopsmith.session import asking, refuse_gold
    from programs import HopBudget
    from programs import method as method_of

    if (budget or arg) and not methods:
        raise HopsmithError("--budget and --arg go with --method: they can't change an export")
    found: list[Any] = []
    for word in exports:
        name, where = _named(word)
        found.append(ExportSource(name, where, settings, engine, force))

    def context() -> Mapping[str, Any]:
        from hopsmith.lm import configure_cache

        configure_cache(None, on=False)
        return {
            "lm": make_lm(settings),
            "adapter": make_adapter(settings),
            "disable_history": True,
            **asking(settings),
        }

    def over(retriever: Any) -> Any:
        return reranked(retriever, settings.rerank, settings.rerank_candidates)

    for name in methods:
        refuse_gold(name)
        bounds = HopBudget.parse(budget or "", method_of(name).default_budget())
        arguments = opt.method_arguments(name, arg)
        place = GraphPlace.of(settings)
        alone = len(methods) == 1
        found.append(
            MethodSource(name, name, context, bounds, arguments, engine, place, over, alone)
        )
    return found


def _named(word: str) -> tuple[str, str]:
    """``NAME=EXPORT``, or a name made of the export's."""
    name, eq, where = word.partition("=")
    if eq and name and "/" not in name:
        return name, where
    if word.startswith("models:/"):
        return word.removeprefix("models:/").partition("@")[0].partition("/")[0], word
    path = Path(word).absolute()
    return (path.parent.name if path.name == "export" else path.name), word
