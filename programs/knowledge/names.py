"""Names of entities: when two spellings are one, and which names of a text the graph knows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_WORD = re.compile(r"[^\W_]+[+#]*")
_MARKS = re.compile("[\u0300-\u036f]")
_POSSESSIVE = re.compile(r"([’']s)+\b", re.IGNORECASE)
_BRACKETS = re.compile(r"\([^)]*\)")
_ARTICLES = frozenset({"the", "a", "an"})
_PRONOUNS = frozenset({"he", "she", "it", "they", "his", "her", "its", "their"})
_NUMBER = re.compile(r"\d+(st|nd|rd|th|s)?")
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:[.,'’\u00a0\u2009\u202f]\d{3})+(?!\d)")
_NOT_NAMES = """january february march april may june july august september october november
december jan feb mar apr jun jul aug sep sept oct nov dec ad bc ce bce of c ca circa about around
hundred thousand million billion percent m km cm mm kg g ft mi sq years year days day hours minutes
seconds dollars euros pounds usd eur gbp"""
_WITH_NUMBERS = frozenset(_NOT_NAMES.split())
LONGEST_NAME = 10
"""Words of a name that is looked for in a text."""


def entity_key(name: str) -> str:
    """What one entity's spellings share: case, accents, articles, possessives and punctuation
    aside. Words in brackets stay, since they tell entities of one name apart."""
    text = unicodedata.normalize("NFKD", _POSSESSIVE.sub("", name).casefold())
    words = _WORD.findall(unicodedata.normalize("NFKC", _MARKS.sub("", text)).casefold())
    while len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    return " ".join(words) or " ".join(name.casefold().split())


def base_key(name: str) -> str:
    """The key without what stands in brackets: "Forbidden Ground (film)" is also known without."""
    return entity_key(_BRACKETS.sub(" ", name)) or entity_key(name)


def relation_key(relation: str) -> str:
    """Relations of one wording: "place_of_birth" is "place of birth"."""
    return " ".join(re.findall(r"[^\W_]+", relation.casefold()))


def is_literal(name: str) -> bool:
    """Whether a name is a date or a number, which nothing leads on from. Knows English months and
    units."""
    words = _WORD.findall(name.casefold())
    numbers = [w for w in words if _NUMBER.fullmatch(w)]
    return bool(numbers) and all(w in _WITH_NUMBERS or _NUMBER.fullmatch(w) for w in words)


def numbers(text: str) -> set[str]:
    """The numbers of three digits and more in a text (years, amounts), as they are written and
    without thousands separators and leading zeros. Shorter ones, days and counts, may stand
    there in words."""
    joined = _THOUSANDS.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    return {n.lstrip("0") for n in re.findall(r"\d{3,}", joined)}


def full_name(name: str, title: str, kind: str = "") -> str:
    """The title where a name in its passage stands for what the passage is about: a pronoun, the
    title without its brackets, the same first and last word ("Shawn Adam Levy" of "Shawn Levy"),
    or, for a person, the last name alone. The name itself otherwise."""
    own, about = entity_key(name).split(), base_key(title).split()
    if not about or not own:
        return name
    person = kind.casefold() in ("person", "people", "human")
    stands = (
        (len(own) == 1 and own[0] in _PRONOUNS)
        or own == about
        or (len(own) > 1 and len(about) > 1 and (own[0], own[-1]) == (about[0], about[-1]))
        or (person and len(own) == 1 and len(about) > 1 and own[0] == about[-1])
    )
    return title if stands else name


def mentions(text: str) -> Iterator[tuple[int, int, str]]:
    """``(start, end, key)`` of everything in a text that may be a name: up to ``LONGEST_NAME``
    words with a capital or a digit in them, longest first."""
    words = [*_WORD.finditer(text)]
    for length in range(min(LONGEST_NAME, len(words)), 0, -1):
        for first in range(len(words) - length + 1):
            span = words[first].start(), words[first + length - 1].end()
            written = text[slice(*span)]
            if any(c.isupper() or c.isdigit() for c in written):
                yield (*span, entity_key(written))
