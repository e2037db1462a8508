"""A question's tree as one HTML file: queries, passages, answers, and why each hop ended as it did.

The file stands alone: no script, no font, no address in it, and all text of corpus and LM escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
.status.gold { border-color: var(--good); color: var(--good); }
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
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(question)}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            f"<h1>{escape(question)}</h1>",
            f"<p>{answer_html(answer)} {badge(stop)}</p>",
            hops_html(hops, passages),
            "</main></body></html>",
            "",
        ]
    )


def hops_html(
    hops: Sequence[HopRow],
    passages: Mapping[str, Passage],
    gold: Mapping[str, str] | None = None,
    texts: bool = True,
) -> str:
    """The tree alone, for a page of others. ``gold`` marks passages by id with a badge; without
    ``texts`` a passage is an empty ``<details data-passage=ID>``, for the page to fill in."""
    known = {hop.id for hop in hops}
    below: dict[int | None, list[HopRow]] = {}
    for hop in hops:
        below.setdefault(hop.parent if hop.parent in known else None, []).append(hop)
    return _nodes(below, None, _Shown(passages, gold or {}, texts))


@dataclass(frozen=True)
class _Shown:
    passages: Mapping[str, Passage]
    gold: Mapping[str, str]
    texts: bool


def _nodes(below: Mapping[int | None, Sequence[HopRow]], parent: int | None, shown: _Shown) -> str:
    """The hops below one, each with those below it."""
    items = [
        f"<li>{_hop(hop, shown)}{_nodes(below, hop.id, shown)}</li>"
        for hop in below.get(parent, ())
    ]
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _hop(hop: HopRow, shown: _Shown) -> str:
    found = answer_html(hop.answer) if hop.answer is not None else ""
    parts = [
        f"<details open><summary>{escape(hop.refined)} {found} {badge(hop.status)} "
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
    parts.append(passages_html(hop.passages, shown.passages, shown.gold, shown.texts))
    return "".join([*parts, "</details>"])


def passages_html(
    ids: Sequence[str],
    passages: Mapping[str, Passage],
    gold: Mapping[str, str] | None = None,
    texts: bool = True,
) -> str:
    """A ranked list of passages; arguments as in ``hops_html``."""
    shown = _Shown(passages, gold or {}, texts)
    return "".join(_passage(rank, name, shown) for rank, name in enumerate(ids, 1))


def _passage(rank: int, name: str, shown: _Shown) -> str:
    passage = shown.passages.get(name)
    mark = f" {badge(shown.gold[name], 'gold')}" if name in shown.gold else ""
    if passage is None:
        return f'<p class="passage faint">{rank}. {escape(name)}{mark}</p>'
    title = passage.cited if passage.title else f"{passage.text[:80]}…"
    if not shown.texts:
        return (
            f'<details class="passage" data-passage="{escape(name)}">'
            f"<summary>{rank}. {escape(title)}{mark}</summary></details>"
        )
    return (
        f'<details class="passage"><summary>{rank}. {escape(title)}{mark}</summary>'
        f"<p>{escape(passage.text)}</p></details>"
    )


def answer_html(answer: str | None, right: bool = True) -> str:
    """An answer, or that there is none; coloured as a good one unless it is known to be wrong."""
    if answer is None:
        return '<span class="none">no answer</span>'
    return f'→ <span class="answer{"" if right else " none"}">{escape(answer)}</span>'


def badge(text: str, kind: str = "") -> str:
    """A word in a frame."""
    name = f"status {kind}".strip()
    return f'<span class="{name}">{escape(text.replace("_", " "))}</span>'
