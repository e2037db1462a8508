"""A question's tree as one HTML file: queries, passages, answers, and why each hop ended as it did.

The file stands alone: no script, no font, no address in it, and all text of corpus and LM escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from optimize.rows import HopRow
from retrieval import Passage

STYLE = """
:root { color-scheme: light dark; --line: #8884; --faint: #777; --good: #1a7f37; --bad: #b3261e; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; }
ul { list-style: none; margin: 0; padding-left: 1rem; border-left: 1px solid var(--line); }
main > ul { padding-left: 0; border: 0; }
li { margin: .4rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
p { margin: .2rem 0 .2rem 1rem; overflow-wrap: anywhere; }
.passage { margin-left: 1rem; font-size: .9rem; }
.passage p { white-space: pre-wrap; }
.faint { color: var(--faint); font-size: .85rem; }
.answer { color: var(--good); font-weight: 600; }
.none, .error { color: var(--bad); }
.status { border: 1px solid var(--line); border-radius: .6rem; padding: 0 .5rem; font-size: .8rem; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def tree_html(
    question: str,
    hops: Sequence[HopRow],
    passages: Mapping[str, Passage],
    answer: str | None,
    stop: str,
) -> str:
    """The page. ``passages`` are those that the hops name, by id; one that is missing is shown by
    its id."""
    known = {hop.id for hop in hops}
    below: dict[int | None, list[HopRow]] = {}
    for hop in hops:
        below.setdefault(hop.parent if hop.parent in known else None, []).append(hop)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(question)}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            f"<h1>{escape(question)}</h1>",
            f"<p>{_answer(answer)} {_badge(stop)}</p>",
            _nodes(below, None, passages),
            "</main></body></html>",
            "",
        ]
    )


def _nodes(
    below: Mapping[int | None, Sequence[HopRow]],
    parent: int | None,
    passages: Mapping[str, Passage],
) -> str:
    """The hops below one, each with those below it."""
    items = [
        f"<li>{_hop(hop, passages)}{_nodes(below, hop.id, passages)}</li>"
        for hop in below.get(parent, ())
    ]
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _hop(hop: HopRow, passages: Mapping[str, Passage]) -> str:
    found = _answer(hop.answer) if hop.answer is not None else ""
    parts = [
        f"<details open><summary>{escape(hop.refined)} {found} {_badge(hop.status)} "
        f'<span class="faint">{escape(hop.role)}, hop {hop.id}</span></summary>'
    ]
    if hop.refined != hop.query:
        parts.append(f'<p class="faint">asked as: {escape(hop.query)}</p>')
    if hop.candidates:
        parts.append(f'<p class="faint">or: {escape("; ".join(hop.candidates))}</p>')
    if hop.note:
        parts.append(f"<p>{escape(hop.note)}</p>")
    if hop.error:
        parts.append(f'<p class="error">{escape(hop.error)}</p>')
    parts += [_passage(n, passages.get(i), i) for n, i in enumerate(hop.passages, 1)]
    return "".join([*parts, "</details>"])


def _passage(rank: int, passage: Passage | None, name: str) -> str:
    if passage is None:
        return f'<p class="passage faint">{rank}. {escape(name)}</p>'
    title = passage.cited if passage.title else f"{passage.text[:80]}…"
    return (
        f'<details class="passage"><summary>{rank}. {escape(title)}</summary>'
        f"<p>{escape(passage.text)}</p></details>"
    )


def _answer(answer: str | None) -> str:
    if answer is None:
        return '<span class="none">no answer</span>'
    return f'→ <span class="answer">{escape(answer)}</span>'


def _badge(text: str) -> str:
    return f'<span class="status">{escape(text.replace("_", " "))}</span>'
