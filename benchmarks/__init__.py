"""Benchmarks: questions with their gold, corpora, the synthetic world, and the oracle."""

from benchmarks.corpus import MappedCorpus, open_corpus
from benchmarks.errors import BenchmarkError
from benchmarks.load import NAMES, load
from benchmarks.own import question_from_json, question_to_json, read_questions
from benchmarks.question import Benchmark, GoldHop, Question
from benchmarks.retrieval_set import load_retrieval_set
from benchmarks.statistics import Statistics, statistics
from benchmarks.subset import questions_hash, subset
from benchmarks.synthetic import stream_passages, synthetic

__all__ = [
    "NAMES",
    "Benchmark",
    "BenchmarkError",
    "GoldHop",
    "MappedCorpus",
    "Question",
    "Statistics",
    "load",
    "load_retrieval_set",
    "open_corpus",
    "question_from_json",
    "question_to_json",
    "questions_hash",
    "read_questions",
    "statistics",
    "stream_passages",
    "subset",
    "synthetic",
]
