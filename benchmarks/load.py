"""Benchmarks by name, from files in the official or the hub's layout, or from the hub itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType

from benchmarks import (
    frames,
    hotpotqa,
    morehopqa,
    multihop_rag,
    musique,
    own,
    retrieval_set,
    twowiki,
)
from benchmarks.corpus import open_corpus, passage_of
from benchmarks.errors import BenchmarkError
from benchmarks.gather import Gathered, Reader, gather
from benchmarks.own import strangers
from benchmarks.places import Places
from benchmarks.question import SPLITS, Benchmark, Question
from benchmarks.rows import Row, Rows, file_rows, hub_rows
from benchmarks.synthetic import PASSAGES, QUESTIONS, SyntheticError, synthetic
from retrieval import Passage
from signatures import Triple

DATA_SETS: Mapping[str, ModuleType] = {
    "hotpotqa": hotpotqa,
    "musique": musique,
    "2wikimultihopqa": twowiki,
    "morehopqa": morehopqa,
    "frames": frames,
    "multihop-rag": multihop_rag,
}
TRIPLES: Mapping[str, Callable[[Question], Sequence[Triple]]] = {
    "musique": musique.triples,
    "2wikimultihopqa": twowiki.triples,
}
"""Data sets whose questions state facts of their passages as triples."""
NAMES = ("synthetic", *DATA_SETS, "own")
TEXTLESS = ("frames", "multihop-rag")
"""Data sets whose rows bring no passages."""
SUFFIXES = (".jsonl", ".json", ".tsv", ".csv", ".jsonl.gz", ".json.gz")


def load(
    name: str = "own",
    *,
    data: Path | None = None,
    train: Path | None = None,
    dev: Path | None = None,
    test: Path | None = None,
    corpus: Path | None = None,
    split: str | None = None,
    seed: int = 0,
) -> Benchmark:
    """A benchmark by name (``NAMES``).

    ``data`` is a file of one split (``split``, else ``dev``) or a folder of such; ``train``,
    ``dev`` and ``test`` name a file each. Without files a data set comes from the hub, ``split``
    alone or all that have answers. ``corpus`` is asked instead of the pooled paragraphs. ``seed``
    is the synthetic world's. Raises ``BenchmarkError``, and ``retrieval.CorpusError`` for a corpus.
    """
    base, _, numbers = name.partition(":")
    if base not in NAMES or (numbers and base != "synthetic"):
        raise BenchmarkError(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
    if split is not None and split not in SPLITS:
        raise BenchmarkError(f"no split {split!r}; there are {', '.join(SPLITS)}")
    files = _files({"train": train, "dev": dev, "test": test}, data, split)
    if base == "synthetic":
        if files or corpus is not None or data is not None:
            raise BenchmarkError("synthetic makes its own questions and corpus: leave files out")
        return _synthetic(numbers, seed)
    if data is not None and data.is_dir() and not files:
        if retrieval_set.is_retrieval_set(data):
            return retrieval_set.load_retrieval_set(data, split or "dev")
        raise BenchmarkError(f"{data} holds no train, dev or test file of questions")
    if base == "own":
        return _own(files, corpus)
    return _data_set(base, files, corpus, split)


def _files(
    named: Mapping[str, Path | None], data: Path | None, split: str | None
) -> dict[str, Path]:
    files = {name: path for name, path in named.items() if path is not None}
    if data is not None and data.is_dir():
        for name in SPLITS:
            there = (data / f"{stem}{s}" for stem in _stems(name) for s in SUFFIXES)
            found = next((path for path in there if path.is_file()), None)
            if found is not None and split in (None, name):
                files.setdefault(name, found)
    elif data is not None:
        files.setdefault(split or "dev", data)
    return files


def _stems(split: str) -> tuple[str, ...]:
    return (split, "validation") if split == "dev" else (split,)


def _synthetic(numbers: str, seed: int) -> Benchmark:
    try:
        sizes = [int(part) for part in numbers.split(",")] if numbers else []
        if len(sizes) > 2:
            raise ValueError
    except ValueError:
        raise BenchmarkError(
            f"synthetic:{numbers} is not synthetic[:questions[,passages]]"
        ) from None
    questions = sizes[0] if sizes else QUESTIONS
    passages = sizes[1] if len(sizes) > 1 else max(100, questions // 2) if sizes else PASSAGES
    try:
        return synthetic(questions, passages, seed)
    except SyntheticError as fault:
        raise BenchmarkError(str(fault)) from fault


def _own(files: Mapping[str, Path], corpus: Path | None) -> Benchmark:
    if not files:
        raise BenchmarkError("own questions need a file: --data, or --train and --dev")
    passages = open_corpus(corpus) if corpus is not None else None
    if any(retrieval_set.is_titled(row) for path in files.values() for row in _head(path)):
        if passages is None:
            raise BenchmarkError("questions with supporting_titles need their corpus: --corpus")
        rows = {split: partial(file_rows, path) for split, path in files.items()}
        found = gather(rows, retrieval_set.question, passages)
        return _benchmark("own", found, own.ANSWER_RULE)
    questions = {split: own.read_questions(path, split) for split, path in files.items()}
    faults = strangers(questions, passages) if passages is not None else []
    return _benchmark("own", Gathered(questions, passages or [], tuple(faults)), own.ANSWER_RULE)


def _head(path: Path) -> list[Row]:
    return list(islice(file_rows(path), 1))


def _data_set(
    name: str, files: Mapping[str, Path], corpus: Path | None, split: str | None
) -> Benchmark:
    module = DATA_SETS[name]
    rows: dict[str, Rows] = {s: partial(file_rows, path) for s, path in files.items()}
    passages: Sequence[Passage] | None = open_corpus(corpus) if corpus is not None else None
    if not rows:
        wanted = [s for s in SPLITS if s in module.HUB.splits and split in (None, s)]
        if not wanted:
            raise BenchmarkError(
                f"the hub's {name} has no {split} split with answers; it has "
                f"{', '.join(module.HUB.splits)}"
            )
        rows = {s: hub_rows(module.HUB, s) for s in wanted}
        if passages is None and name == "multihop-rag":
            articles = hub_rows(multihop_rag.HUB_CORPUS, "corpus")
            passages = [passage_of(row.data, row.where) for row in articles()]
    found = gather(rows, _reader(name, module, files), passages)
    if passages is not None and name in TEXTLESS:
        lacking = strangers(found.questions, passages)
        found = Gathered(found.questions, found.corpus, (*found.faults, *lacking))
    if name == "musique":
        found = _without_answered(found)
    return _benchmark(name, found, module.ANSWER_RULE)


def _reader(name: str, module: ModuleType, files: Mapping[str, Path]) -> Reader:
    own_reader: Reader = module.question
    if name == "2wikimultihopqa":
        aliases = {
            identifier: names
            for folder in {path.parent for path in files.values()}
            for identifier, names in twowiki.read_aliases(folder).items()
        }
        own_reader = partial(twowiki.question, aliases=aliases)

    def read(row: Row, places: Places, notes: list[str]) -> Question:
        reader = retrieval_set.question if retrieval_set.is_titled(row) else own_reader
        return reader(row, places, notes)

    return read


def _without_answered(found: Gathered) -> Gathered:
    """MuSiQue-Full's unanswerable questions that the pooled corpus answers are left out."""
    every = [q for asked in found.questions.values() for q in asked if q.kind != "single"]
    answered = musique.answered_elsewhere(q for q in every if "sub_question_ids" in q.meta)
    kept = {
        split: [q for q in asked if q.id not in answered]
        for split, asked in found.questions.items()
    }
    named = [f"{identifier}: left out: {why}" for identifier, why in answered.items()]
    return Gathered(kept, found.corpus, (*found.faults, *named))


def _benchmark(name: str, found: Gathered, answer_rule: str) -> Benchmark:
    faults = (*found.faults, *_repeated(found.questions))
    triples: list[Triple] = []
    if stated := TRIPLES.get(name):
        told = (t for asked in found.questions.values() for q in asked for t in stated(q))
        triples = list(dict.fromkeys(told))
    return Benchmark(name, found.questions, found.corpus, answer_rule, faults, triples)


def _repeated(questions: Mapping[str, Sequence[Question]]) -> list[str]:
    """Questions that stand in two splits: what was tuned on is then tested on."""
    first: dict[str, str] = {}
    found = []
    for split in (s for s in SPLITS if s in questions):
        for question in questions[split]:
            text = " ".join(question.question.casefold().split())
            if first.setdefault(text, split) != split:
                found.append(f"{split} {question.id}: is asked in {first[text]} too")
    return found


__all__ = ["NAMES", "BenchmarkError", "load"]
