"""doctor: what this machine has and lacks, and whether a retriever keeps the contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import RunFailed

if TYPE_CHECKING:
    from hopsmith.doctor import Finding
    from hopsmith.settings import Settings

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    own: opt.Retriever = None,
    queries: Annotated[
        list[str] | None,
        typer.Option("--query", help="What to ask the retriever; may be given several times."),
    ] = None,
    index: opt.Index = None,
    lm: opt.LM = None,
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    json: opt.Json = False,
) -> None:
    """Check this machine: each line is ok, a note, or what is broken and its mend.

    With --retriever (or --query) it holds a retriever to the contract instead: an own one, or the
    index that --index names. Exit code 1 when something that is needed is broken.
    """
    from rich.markup import escape

    from hopsmith.show import out, print_json

    settings = opt.settings_flags(
        lm=lm, api_base=api_base, lm_file=lm_file, index=index, retriever=own
    )
    if settings.retriever is not None or queries:
        found = contract(settings, queries)
    else:
        from hopsmith.doctor import diagnose

        found = diagnose(settings)
    findings = []
    for finding in found:
        findings.append(finding)
        if not json:
            mark = f"[{COLOURS[finding.state]}]{finding.state:6}[/]"
            out.print(f"{mark} {finding.check}: {escape(finding.says)}", highlight=False)
    usable = all(f.state != "broken" for f in findings)
    if json:
        checks = [{"check": f.check, "state": f.state, "says": f.says} for f in findings]
        print_json({"usable": usable, "checks": checks})
    if not usable:
        names = ", ".join(f.check for f in findings if f.state == "broken")
        raise RunFailed(f"broken: {names}; mend what the lines above name")


def contract(settings: Settings, queries: list[str] | None) -> Iterable[Finding]:
    """What each check of the contract finds of the retriever that is set."""
    from hopsmith.doctor import Finding
    from hopsmith.session import retriever_for
    from retrieval.conformance import CHECKS, QUERIES, conform

    retriever = retriever_for(settings.index, own=settings.retriever)
    for finding in conform(retriever, queries or QUERIES):
        asked = " ".join((CHECKS[finding.check].__doc__ or "").split())
        state = "broken" if finding.state == "wrong" else finding.state
        yield Finding(finding.check, state, finding.says or asked)
