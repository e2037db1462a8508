"""questions: training questions from what there is already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    json: opt.Json = False,
) -> None:
    """Make training questions, for review, from questions that a server answered.

    An answer with a thumb up, or with a correction, is marked review; a wrong one whose right
    answer nobody gave is marked rejected, which compile leaves out until you write the answer.
    """
    import sys

    from hopsmith.errors import HopsmithError
    from hopsmith.serving.learning import extend
    from hopsmith.show import print_json

    if from_log is None:
        raise HopsmithError("where from? give --from-log DIR, a server's journal")
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
