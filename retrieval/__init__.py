"""Retrieval: Passage, the Retriever contract and the engines that keep it."""

from retrieval.build import IndexReport, build_index
from retrieval.change import add_passages, compact, delete_passages
from retrieval.contract import BaseRetriever, Retriever
from retrieval.corpus import read_corpus
from retrieval.errors import CorpusError, IndexFault, QueryError, RetrievalError
from retrieval.index import open_index
from retrieval.passage import Passage, passage_id

__all__ = [
    "BaseRetriever",
    "CorpusError",
    "IndexFault",
    "IndexReport",
    "Passage",
    "QueryError",
    "RetrievalError",
    "Retriever",
    "add_passages",
    "build_index",
    "compact",
    "delete_passages",
    "open_index",
    "passage_id",
    "read_corpus",
]
