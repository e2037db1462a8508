"""Ingestion: an LM reads each passage once, for triples or for propositions.

Passages are read side by side (``fan_out``), written as they come in batches, and never read twice:
a killed pass goes on where it stopped, and a corpus that grew is read where it is new. A passage
whose reply can't be used stays unread, is counted, and comes again with the next pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import dspy

from programs.fan_out import fan_out, width
from programs.fingerprint import lm_identity
from programs.knowledge.errors import GraphError
from programs.knowledge.names import entity_key, full_name, is_literal, numbers, relation_key
from programs.knowledge.schema import GraphSchema
from programs.knowledge.store import GraphStore, Kind, digest
from programs.step import ROLE_LMS, Step
from retrieval import Passage
from signatures import (
    Claim,
    ExtractPropositions,
    ExtractTriples,
    Proposition,
    Statement,
    Triple,
    render,
    signature_hash,
    tokens,
)

ROLE = "extractor"
MOST_TOKENS = 3000
"""Of one passage that are read."""
BATCH = 16
"""Passages read between two writes, where no more are read at once."""
HOPELESS = 24
"""So many passages in a row without a usable reply end a pass."""
SAMPLE = 50
"""Passages whose prompts are measured for an estimate."""
WRITTEN: Mapping[Kind, float] = {"triples": 2.5, "propositions": 1.8}
"""Tokens written for a token of passage, before any were measured: a guess from JSON's overhead."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a pass will take, at most one retry a passage aside."""

    kind: Kind
    passages: int
    prompt_tokens: int
    completion_tokens: int
    measured: int = 0
    """Passages of earlier passes that the tokens written are measured on; 0 for a guess."""

    def cost(self, price: tuple[float, float] | None) -> float | None:
        """Dollars, at dollars per million (input, output) tokens."""
        if price is None:
            return None
        return (self.prompt_tokens * price[0] + self.completion_tokens * price[1]) / 1e6


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a pass did."""

    kind: Kind
    passages: int
    """Read and written."""
    found: int
    """Triples or propositions."""
    dropped: int
    """What the schema doesn't allow, and what names something that is not in the passage."""
    failed: tuple[str, ...]
    """Ids of passages that stay unread."""


class Extractor:
    """One kind of reading."""

    def __init__(self, kind: Kind, schema: GraphSchema | None = None) -> None:
        self.kind: Kind = kind
        self.schema = schema or GraphSchema()
        signature = ExtractTriples if kind == "triples" else ExtractPropositions
        self.step = Step(signature, ROLE, fallback={kind: []})

    @property
    def identity(self) -> str:
        """What readings depend on, as JSON; those of another may not be mixed with them."""
        lm = (dspy.settings.get(ROLE_LMS) or {}).get(ROLE, dspy.settings.lm)
        told = {
            "lm": (lm_identity(lm) or {}).get("name"),
            "signature": signature_hash(self.step.signature),
            "schema": self.schema.identity,
        }
        return json.dumps(told, sort_keys=True)

    def inputs(self, passage: Passage) -> dict[str, Any]:
        """Of the signature."""
        shown = render([passage], max_passages=1, max_tokens=MOST_TOKENS)
        if self.kind == "propositions":
            return {"passage": shown}
        return {
            "passage": shown,
            "entity_types": list(self.schema.entities),
            "relation_types": self.schema.relation_types(),
        }

    def read(self, passage: Passage) -> tuple[list[Any], int] | None:
        """``(what was found, how much was dropped)``; None when the reply can't be used."""
        reply = self.step(**self.inputs(passage))
        if reply.get("error"):
            return None
        made: list[Any] = []
        said = reply[self.kind] or []
        for item in said:
            found = (
                triple_of(item, passage)
                if self.kind == "triples"
                else proposition_of(item, passage)
            )
            if isinstance(found, Triple) and not self.schema.allows(found):
                continue
            if found is not None and found not in made:
                made.append(found)
        return made, len(said) - len(made)


def triple_of(statement: Any, passage: Passage) -> Triple | None:
    """A statement as a triple of its passage: names in full, types and relation in lower case.
    None for one without content, with a name of which half the words are not in the passage, or
    with a date or number that is not there."""
    if not isinstance(statement, Statement):
        return None
    kinds = [
        " ".join(k.casefold().split()) for k in (statement.subject_type, statement.object_type)
    ]
    subject, found = (
        full_name(" ".join(name.split()), passage.title, kind)
        for name, kind in zip((statement.subject, statement.object), kinds, strict=True)
    )
    relation = relation_key(statement.relation)
    if not relation or not subject or not found or entity_key(subject) == entity_key(found):
        return None
    if not all(_stands_in(name, passage) for name in (subject, found)):
        return None
    return Triple(subject, relation, found, passage.id, *kinds)


def proposition_of(claim: Any, passage: Passage) -> Proposition | None:
    """A claim as a proposition of its passage, with the entities that the passage names."""
    if not isinstance(claim, Claim) or not claim.text.strip():
        return None
    names = [full_name(" ".join(e.split()), passage.title) for e in claim.entities if e.strip()]
    kept = [name for name in names if _stands_in(name, passage)]
    return Proposition(" ".join(claim.text.split()), tuple(dict.fromkeys(kept)), passage.id)


def _stands_in(name: str, passage: Passage) -> bool:
    written = f"{passage.title} {passage.text}"
    if is_literal(name):
        spaced = re.sub(r"(?<=\d) (?=\d{3}\b)", "", written)
        return numbers(name) <= numbers(written) | numbers(spaced)
    words, text = entity_key(name).split(), set(entity_key(written).split())
    return 2 * sum(word in text for word in words) >= len(words) > 0


def pending(store: GraphStore | None, corpus: Iterable[Passage], kind: Kind) -> list[Passage]:
    """The passages that a pass would read; changes nothing."""
    held = store.digests() if store is not None else {}
    unread = set(store.unread(kind)) if store is not None else set()
    return [p for p in corpus if held.get(p.id) != digest(p) or p.id in unread]


def estimate(extractor: Extractor, passages: Sequence[Passage], known: str | None) -> Estimate:
    """From the prompts of a sample; ``known`` is what earlier passes noted of their cost."""
    kind, sample = extractor.kind, passages[:: max(1, len(passages) // SAMPLE)][:SAMPLE]
    adapter = dspy.JSONAdapter()
    prompts = [
        sum(
            tokens(str(message["content"]))
            for message in adapter.format(extractor.step.signature, [], extractor.inputs(p))
        )
        for p in sample
    ]
    earlier = json.loads(known) if known else {"passages": 0, "written": 0}
    if earlier["passages"] and earlier["written"]:
        written = earlier["written"] / earlier["passages"]
    else:
        texts = sum(tokens(p.text) for p in sample) / max(1, len(sample))
        written, earlier = WRITTEN[kind] * texts, {"passages": 0}
    read = sum(prompts) / max(1, len(sample))
    n = len(passages)
    return Estimate(kind, n, round(n * read), round(n * written), earlier["passages"])


def extract(
    store: GraphStore,
    extractor: Extractor,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Extraction:
    """Read the passages that were not read yet, at most ``limit``, and write what they say.

    The LM is that of ``dspy.settings``. Raises ``GraphError`` when what is there was read by
    another LM or schema, or when no reply can be used; what was read by then is kept.
    """
    kind = extractor.kind
    before = store.noted().get(kind)
    if before not in (None, extractor.identity):
        raise GraphError(
            f"the {kind} at {store.name} were read otherwise ({_differs(before, extractor)}): "
            "--again reads all passages anew, --graph takes another place"
        )
    store.note(kind, extractor.identity)
    ids = store.unread(kind)[:limit]
    done = found = dropped = in_a_row = 0
    failed: list[str] = []
    source = iter(ids)
    while batch := list(islice(source, max(BATCH, width()))):
        passages = store.passages(batch)
        replies = fan_out([partial(extractor.read, passages[i]) for i in batch])
        read = {i: reply for i, reply in zip(batch, replies, strict=True) if reply is not None}
        said = {i: items for i, (items, _) in read.items()}
        store.write("lm", **{kind: said})  # type: ignore[arg-type]
        done, found = done + len(read), found + sum(map(len, said.values()))
        dropped += sum(n for _, n in read.values())
        failed += [i for i in batch if i not in read]
        in_a_row = 0 if read else in_a_row + len(batch)
        if progress is not None:
            progress(done + len(failed), len(ids))
        if in_a_row >= HOPELESS:
            raise GraphError(
                f"the LM gave no usable reply for {in_a_row} passages in a row: try another "
                "--adapter or --lm; what was read is kept"
            )
    return Extraction(kind, done, found, dropped, tuple(failed))


def note_cost(store: GraphStore, kind: Kind, passages: int, written: int) -> None:
    """Add a pass's tokens to what later estimates are measured on."""
    earlier = json.loads(store.noted().get(f"cost.{kind}") or '{"passages": 0, "written": 0}')
    total = {
        "passages": earlier["passages"] + passages,
        "written": earlier["written"] + written,
    }
    store.note(f"cost.{kind}", json.dumps(total))


def forget(store: GraphStore, kind: Kind) -> None:
    """Make all passages unread again."""
    store.forget("lm", kind)
    store.note(f"cost.{kind}", "")


def _differs(before: str, extractor: Extractor) -> str:
    old, new = json.loads(before), json.loads(extractor.identity)
    return ", ".join(f"{k} {old.get(k)!r}, now {new[k]!r}" for k in new if old.get(k) != new[k])
