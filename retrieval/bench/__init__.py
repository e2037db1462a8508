"""What ``hopsmith bench retrieval`` measures: engines over the same corpus and questions, beside
colbert-ai's own ``Searcher``. Each build and each engine runs in a process of its own, so that peak
memory is its own and no cache is warm."""

from retrieval.bench.records import (
    BATCH,
    CONTENDERS,
    DEPTHS,
    BenchQuestion,
    BenchReport,
    BuildRow,
    Contender,
    SearchRow,
    contenders,
)
from retrieval.bench.run import bench_retrieval, so_far, work_folder
from retrieval.bench.table import table

__all__ = [
    "BATCH",
    "CONTENDERS",
    "DEPTHS",
    "BenchQuestion",
    "BenchReport",
    "BuildRow",
    "Contender",
    "SearchRow",
    "bench_retrieval",
    "contenders",
    "so_far",
    "table",
    "work_folder",
]
