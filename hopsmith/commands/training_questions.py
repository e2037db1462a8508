"""questions: training questions from what there is already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt


def register(app: typer.Typer) -> None:
    app.command()(questions)


def questions(
    out: Annotated[
        Path, typer.Option("--out", help="The file to write, or to add to: its lines stay.")
    ],
    from_log: Annotated[
        Path | None,
        typer.Option("--from-log", help="The journal of hopsmith serve --log-dir."),
    ] = None,
    unrated: Annotated[
        bool,
        typer.Option("--unrated", help="Take requests without a thumb too, marked rejected."),
    ] = False,
    index: opt.Index = None,
    n: Annotated[
        int, typer.Option("--n", min=1, help="Questions to write from an index, for review.")
    ] = 50,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="bridge, comparison; both by default.")
    ] = None,
    lm: opt.LM = None,
    role_lm: opt.RoleLM = None,
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    adapter: opt.Adapter = None,
    seed: opt.Seed = None,
    price: opt.Price = None,
    max_calls: opt.MaxCalls = None,
    max_cost: opt.MaxCost = None,
    json: opt.Json = False,
) -> None:
    """Make training questions, for review: written from an index's linked passages (--index), or
    from questions that a server answered (--from-log).

    From an index an LM writes bridge and comparison questions; one is marked review only if a
    reader answers it from its two passages and from neither alone, else rejected, with the reason.
    From a log, an answer with a thumb up or a correction is marked review; a wrong one whose right
    answer nobody gave is marked rejected, which compile leaves out until you write the answer.
    """
    import sys

    from hopsmith.errors import HopsmithError
    from hopsmith.serving.learning import extend
    from hopsmith.show import print_json

    if index is not None and from_log is None:
        settings = opt.settings_flags(
            lm=lm,
            role_lm=role_lm,
            api_base=api_base,
            lm_file=lm_file,
            adapter=adapter,
            seed=seed,
            price=price,
            index=index,
            max_calls=max_calls,
            max_cost=max_cost,
        )
        _write(out, n, kind, settings, json=json)
        return
    if from_log is None:
        raise HopsmithError("where from? give --index DIR, or --from-log DIR, a server's journal")
    if index is not None:
        raise HopsmithError("--index and --from-log: give one of them")
    made = extend(out, from_log, unrated=unrated)
    review, rejected = made.count("review"), made.count("rejected")
    if json:
        print_json(
            {
                "out": str(out),
                "review": review,
                "rejected": rejected,
                "known": made.known,
                "unrated": made.unrated,
                "unreadable": made.unreadable,
                "orphans": made.orphans,
            }
        )
        return
    print(
        f"{out}: {review} to review, {rejected} rejected until somebody writes the answer; "
        f"{made.known} were there already, {made.unrated} without a thumb left out",
        file=sys.stderr,
    )
    if made.unreadable or made.orphans:
        print(
            f"{made.unreadable} lines could not be read; {made.orphans} thumbs are about requests "
            "that were not kept",
            file=sys.stderr,
        )


def _write(out: Path, n: int, kinds: list[str] | None, settings: Any, *, json: bool) -> None:
    """Questions from linked passages."""
    import sys

    import dspy

    from hopsmith.errors import HopsmithError
    from hopsmith.lm import ORACLE
    from hopsmith.progress import console
    from hopsmith.running import limits
    from hopsmith.session import retriever_for, session
    from hopsmith.show import print_json
    from optimize.limits import LimitReached
    from optimize.linked import pairs
    from optimize.question_writing import write_questions
    from programs.ledger import LEDGER
    from retrieval.contract import ReadsCorpus

    wanted = tuple(dict.fromkeys(kinds or ("bridge", "comparison")))
    unknown = [kind for kind in wanted if kind not in ("bridge", "comparison")]
    if unknown:
        raise HopsmithError(f"--kind {unknown[0]!r}: there are bridge and comparison")
    if settings.lm == ORACLE:
        raise HopsmithError("the oracle can't write questions: name another --lm")
    retriever = retriever_for(settings.index)
    if not isinstance(retriever, ReadsCorpus):
        raise HopsmithError("this index can't list its passages: give a local index folder")

    def told(line: dict[str, Any], kept: int) -> None:
        reason = line["meta"].get("reason")
        mark = f"rejected: {reason}" if reason else f"{kept} of {n}"
        console.print(f"{mark} · {line['question']} → {line['answer']}", highlight=False)

    ledger, stopped, done = limits(settings), None, None
    with session(settings), dspy.context(**{LEDGER: ledger}):
        found = pairs(retriever.corpus(), retriever, wanted, settings.seed)  # type: ignore[arg-type]
        try:
            done = write_questions(found, out, n, told=told)
        except LimitReached as limit:
            stopped = str(limit)
    kept = done.kept if done else None
    rejected = done.rejected if done else {}
    if json:
        print_json(
            {
                "out": str(out),
                "review": kept,
                "rejected": rejected,
                "exhausted": bool(done and done.exhausted),
                "stopped": stopped,
                "spent": ledger.total.to_json(),
            }
        )
        return
    if stopped is not None:
        print(f"{stopped} is reached; {out} holds what was written", file=sys.stderr)
        return
    print(f"{out}: {kept} to review, {sum(rejected.values())} rejected now", file=sys.stderr)
    for reason, count in sorted(rejected.items(), key=lambda item: -item[1]):
        print(f"  {count} rejected: {reason}", file=sys.stderr)
    if done and done.exhausted:
        print("no linked passages are left to write about", file=sys.stderr)
