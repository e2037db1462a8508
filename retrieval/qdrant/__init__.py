"""Indexes beyond one machine: the two stages inside a Qdrant collection, which a small folder
names."""

from retrieval.qdrant.build import build_qdrant
from retrieval.qdrant.change import add_to_qdrant, delete_from_qdrant
from retrieval.qdrant.manifest import QdrantManifest, is_qdrant
from retrieval.qdrant.retriever import QdrantRetriever, open_qdrant

__all__ = [
    "QdrantManifest",
    "QdrantRetriever",
    "add_to_qdrant",
    "build_qdrant",
    "delete_from_qdrant",
    "is_qdrant",
    "open_qdrant",
]
