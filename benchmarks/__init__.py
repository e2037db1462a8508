"""Benchmarks: questions with their gold, corpora, the synthetic world, and the oracle."""

from benchmarks.load import BenchmarkError, load
from benchmarks.question import Benchmark, GoldHop, Question
from benchmarks.subset import subset
from benchmarks.synthetic import synthetic

__all__ = ["Benchmark", "BenchmarkError", "GoldHop", "Question", "load", "subset", "synthetic"]
