"""GraphSchema: which types of entities and relations an extraction may use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from programs.knowledge.errors import GraphError
from programs.knowledge.names import relation_key
from signatures import Triple

EXAMPLE = '{"entities": ["person", "company"], "relations": {"founder": ["company", "person"]}}'


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    entities: list[str] = []
    relations: list[str] | dict[str, tuple[str, str] | None] = []


@dataclass(frozen=True)
class GraphSchema:
    """Empty means free: any type, any relation."""

    entities: tuple[str, ...] = ()
    relations: Mapping[str, tuple[str, str] | None] = field(default_factory=dict)
    """Relation → types that it links (subject, object), or None for any."""

    @classmethod
    def read(cls, path: Path) -> GraphSchema:
        """From a JSON file (``EXAMPLE``). Raises ``GraphError``."""
        try:
            found = _File.model_validate_json(path.read_text("utf-8"))
        except OSError as fault:
            raise GraphError(f"--schema {path}: {fault.strerror or fault}") from None
        except ValidationError as fault:
            where = ".".join(map(str, fault.errors()[0]["loc"]))
            raise GraphError(
                f"--schema {path}: {where + ': ' if where else ''}{fault.errors()[0]['msg']}; "
                f"wanted is, such as, {EXAMPLE}"
            ) from None
        relations = found.relations
        if isinstance(relations, list):
            relations = dict.fromkeys(relations)
        return cls(
            tuple(t.strip().casefold() for t in found.entities),
            {
                relation_key(name): ends and (ends[0].casefold(), ends[1].casefold())
                for name, ends in relations.items()
            },
        )

    def relation_types(self) -> list[str]:
        """For the prompt: "founder (company → person)"."""
        return [
            name if ends is None else f"{name} ({ends[0]} → {ends[1]})"
            for name, ends in self.relations.items()
        ]

    def allows(self, triple: Triple) -> bool:
        """Whether a triple's relation and types are among those listed. A type that an LM left out
        is no fault."""
        types = triple.subject_type, triple.object_type
        if self.relations:
            if triple.relation not in self.relations:
                return False
            ends = self.relations[triple.relation]
            if ends and any(t and t != wanted for t, wanted in zip(types, ends, strict=True)):
                return False
        return not self.entities or all(not t or t in self.entities for t in types)

    @property
    def identity(self) -> str:
        """16 hex digits; empty for a free one."""
        if not self.entities and not self.relations:
            return ""
        value = [sorted(self.entities), sorted((k, v) for k, v in self.relations.items())]
        return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
