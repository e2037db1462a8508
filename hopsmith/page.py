"""What pages have in common: they stand alone (no address is asked), read in light and in dark and
on a narrow screen, and run only the script that they were written with."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from html import escape
from pathlib import Path
from typing import Any

from hopsmith.tree_html import STYLE
from optimize.tables import Table

CHUNK = 100
"""Questions whose bodies are packed together: a page unpacks a chunk when one of them is opened."""


def opening(title: str, script: str = "") -> str:
    """Up to ``<main>``. ``script`` is the one that ``closing`` will carry."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    if script:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{part('page.css')}</style></head>\n"
        "<body><main>\n"
    )


def closing(script: str = "") -> str:
    """From ``</main>`` on."""
    return "</main>\n" + (f"<script>{script}</script>\n" if script else "") + "</body></html>\n"


def part(name: str) -> str:
    """A file beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def data(name: str, value: Any) -> str:
    """Plain values for the script, as JSON that can't end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{_clean(text)}</script>\n'


def packed(number: int, value: Any) -> str:
    """A chunk of values for the script, packed: pages of thousands of questions stay light."""
    text = _clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    held = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'<script type="application/octet-stream" data-chunk="{number}">{held}</script>\n'


def _clean(text: str) -> str:
    """Half surrogate pairs can't be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def table_html(table: Table, heading: str = "h2") -> str:
    """A table that scrolls sideways on a narrow screen, its note below."""
    words = [place == 0 or column in table.words for place, column in enumerate(table.columns)]
    head = "".join(_cell("th", c, w) for c, w in zip(table.columns, words, strict=True))
    body = "".join(
        f"<tr>{''.join(_cell('td', c, w) for c, w in zip(row, words, strict=True))}</tr>"
        for row in table.rows
    )
    note = f'<p class="faint note">{escape(table.note)}</p>' if table.note else ""
    return (
        f"<section><{heading}>{escape(table.title)}</{heading}>\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        f"</div>{note}</section>\n"
    )


def _cell(tag: str, text: str, words: bool) -> str:
    return f"<{tag}{' class=words' if words else ''}>{escape(text)}</{tag}>"


def options(name: str, label: str, choices: list[tuple[str, str]]) -> str:
    """A labelled choice for a page's filters."""
    told = "".join(f'<option value="{escape(v)}">{escape(text)}</option>' for v, text in choices)
    return f'<label>{escape(label)} <select id="{name}">{told}</select></label>'
