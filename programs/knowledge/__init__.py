"""Knowledge: the graph of a corpus. Ingestion writes it (``ingest``, ``given``), a database keeps
it (``store``), methods walk it (``graph``, ``walk``, ``paths``)."""

from programs.knowledge.errors import GraphError
from programs.knowledge.graph import UNTYPED, Coverage, Entity, Knowledge
from programs.knowledge.walk import Edge, Walk

__all__ = ["UNTYPED", "Coverage", "Edge", "Entity", "GraphError", "Knowledge", "Walk"]
