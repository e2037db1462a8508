"""Retrieval: Passage, the Retriever contract and the engines that keep it."""

from retrieval.build import IndexReport, build_index
from retrieval.change import add_passages, compact, delete_passages
from retrieval.contract import BaseRetriever, Retriever
from retrieval.corpus import read_corpus
from retrieval.errors import (
    CorpusError,
    IndexFault,
    QueryError,
    RemoteFault,
    RetrievalError,
    RetrieverFault,
)
from retrieval.index import open_index
from retrieval.opening import open_retriever
from retrieval.own import plugged
from retrieval.passage import Passage, passage_id

__all__ = [
    "BaseRetriever",
    "CorpusError",
    "IndexFault",
    "IndexReport",
    "Passage",
    "QueryError",
    "RemoteFault",
    "RetrievalError",
    "Retriever",
    "RetrieverFault",
    "add_passages",
    "build_index",
    "compact",
    "delete_passages",
    "open_index",
    "open_retriever",
    "passage_id",
    "plugged",
    "read_corpus",
]
