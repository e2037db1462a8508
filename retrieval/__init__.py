"""Retrieval: Passage, the Retriever contract and the engines that keep it."""

from retrieval.contract import BaseRetriever, Retriever
from retrieval.errors import CorpusError, IndexFault, QueryError, RetrievalError
from retrieval.passage import Passage, passage_id

__all__ = [
    "BaseRetriever",
    "CorpusError",
    "IndexFault",
    "Passage",
    "QueryError",
    "RetrievalError",
    "Retriever",
    "passage_id",
]
