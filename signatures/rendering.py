"""The one function that turns passages into prompt text.

Its version is part of a pipeline's fingerprint: change the format, raise the version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

RENDERING_VERSION = 1
CHARS_PER_TOKEN = 3.5
"""A low estimate for English, so that a bound in tokens holds for the tokenizers in use."""
EMPTY = "(no passages)"


class HasText(Protocol):
    """What is rendered: anything with an id, a title and a text (``retrieval.Passage``)."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...


class Context(str):
    """Prompt text that remembers which passages it shows, in the order of their numbers."""

    ids: tuple[str, ...]
    blocks: tuple[str, ...]

    def __new__(cls, blocks: tuple[str, ...], ids: tuple[str, ...] = ()) -> Context:
        text = "\n\n".join(f"[{n}] {block}" for n, block in enumerate(blocks, 1))
        made = super().__new__(cls, text or EMPTY)
        made.ids, made.blocks = ids, blocks
        return made

    def without(self, ids: Collection[str]) -> Context:
        """The same passages less some, numbered anew."""
        kept = [i for i, known in enumerate(self.ids) if known not in ids]
        return Context(tuple(self.blocks[i] for i in kept), tuple(self.ids[i] for i in kept))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Context, (self.blocks, self.ids))


def tokens(text: str) -> int:
    """A low-side estimate of how many tokens ``text`` takes (never fewer than one)."""
    return max(1, round(len(text) / CHARS_PER_TOKEN))


def render(
    passages: Iterable[HasText],
    *,
    max_passages: int,
    max_tokens: int,
    protected: Collection[str] = (),
) -> Context:
    """Passages as numbered prompt text, bounded by count and by tokens.

    Passages come in the order given, which is kept, so that a context that only grows keeps its
    beginning. When a bound cuts, unprotected passages go first, the last ones first; a first
    passage that alone exceeds ``max_tokens`` is shortened rather than dropped.
    """
    every = list(passages)
    keep = set(range(len(every)))
    blocks = [f"{p.title}\n{p.text}" if p.title else p.text for p in every]
    sizes = [tokens(b) + 4 for b in blocks]

    def over() -> bool:
        return len(keep) > max_passages or sum(sizes[i] for i in keep) > max_tokens

    order = sorted(keep, key=lambda i: (every[i].id not in protected, i))
    while len(keep) > 1 and over():
        keep.discard(order.pop())
    shown = sorted(keep)
    if len(shown) == 1 and sizes[shown[0]] > max_tokens:
        i = shown[0]
        blocks[i] = blocks[i][: max(1, int(max_tokens * CHARS_PER_TOKEN))]
    return Context(tuple(blocks[i] for i in shown), tuple(every[i].id for i in shown))
