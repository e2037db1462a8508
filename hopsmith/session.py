"""A command's session: LM, adapter, retriever and benchmark from settings, in ``dspy.context``."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from benchmarks import Benchmark, Question
from benchmarks.golden import GoldenRetriever
from benchmarks.oracle import OracleAdapter
from hopsmith.errors import HopsmithError
from hopsmith.lm import LOCAL, ORACLE, configure_cache, make_adapter, make_lm, role_lms
from hopsmith.reranking import reranked
from hopsmith.settings import Settings
from hopsmith.window import count_tokens, window
from programs import method as method_of
from programs.fan_out import WIDTH
from programs.ledger import PRICE
from programs.program import DEADLINE
from programs.scope import WINDOW
from programs.step import ROLE_LMS
from retrieval import BaseRetriever, build_index, open_retriever, plugged
from retrieval.contract import ReadsCorpus, size_of
from retrieval.corpus import CorpusHash
from retrieval.folders import cache_folder
from retrieval.manifest import NAME as MANIFEST
from signatures import Triple


@dataclass(frozen=True)
class Session:
    """What a command asks with."""

    settings: Settings
    lm: dspy.LM
    adapter: dspy.Adapter
    ceiling: bool
    """The oracle answers: numbers are ceilings, never results."""


@contextmanager
def session(
    settings: Settings,
    questions: Sequence[Question] = (),
    *,
    cache: Path | None = None,
    triples: Sequence[Triple] = (),
) -> Iterator[Session]:
    """LM and adapter as the settings say, as ``dspy.settings`` for the block.

    ``questions`` and ``triples`` are what the oracle knows; ``cache`` is where LM answers are kept
    instead of the cache folder. Raises ``HopsmithError``.
    """
    ceiling = settings.lm == ORACLE
    if ceiling and not questions and not triples:
        raise HopsmithError(
            "--lm oracle answers a benchmark's questions only: use it with eval or compile"
        )
    lm = make_lm(settings)
    adapter: Any = (
        OracleAdapter(questions, settings.oracle_noise, settings.seed, triples)
        if ceiling
        else make_adapter(settings)
    )
    context = asking(settings)
    configure_cache(cache, on=settings.lm_cache)
    with dspy.context(
        lm=lm,
        adapter=adapter,
        disable_history=True,
        **context,
    ):
        yield Session(settings, lm, adapter, ceiling)


def asking(settings: Settings) -> dict[str, Any]:
    """Keys for ``dspy.context`` besides LM and adapter."""
    return {
        ROLE_LMS: role_lms(settings),
        PRICE: settings.price,
        DEADLINE: settings.deadline,
        WIDTH: settings.slots if settings.lm == LOCAL else None,
        WINDOW: window,
    }


def check_question(lm: Any, question: str) -> None:
    """Raise ``HopsmithError`` when a question is empty or longer than the model's window."""
    if not question.strip():
        raise HopsmithError('the question is empty: hopsmith ask "…" --index DIR')
    room = window(lm)
    if room is None:
        return
    tokens = count_tokens(lm, question)
    if tokens >= room:
        raise HopsmithError(
            f"the question takes {tokens:,} tokens and the model's window holds {room:,}: shorten "
            "it"
        )


def say_faults(benchmark: Benchmark) -> None:
    """Count and name, on stderr, the records that could not be used as they are."""
    if benchmark.faults:
        print(
            f"{benchmark.name}: {len(benchmark.faults)} records have faults, the first: "
            f"{benchmark.faults[0]}",
            file=sys.stderr,
        )


def retriever_for(
    index: str | Path | None,
    benchmark: Benchmark | None = None,
    engine: str | None = None,
    checkpoint: str | None = None,
    where: Sequence[str] | None = None,
    own: str | None = None,
    settings: Settings | None = None,
) -> BaseRetriever:
    """The retriever of one's own or the index given, else the benchmark's own corpus, indexed once
    into the cache folder; of it the passages that meet the conditions ``where``, reranked as the
    settings say."""
    if own is not None:
        found = own_retriever(own, index, engine=engine, checkpoint=checkpoint)
    elif index is not None:
        found = open_retriever(index, engine=engine, checkpoint=checkpoint)
    elif benchmark is None or not len(benchmark.corpus):
        raise HopsmithError("no index: give --index DIR (hopsmith index CORPUS --out DIR makes it)")
    else:
        found = open_retriever(cached_index(benchmark), engine=engine)
    narrow = filtered(found, where)
    return reranked(narrow, settings.rerank, settings.rerank_candidates) if settings else narrow


def filtered(retriever: BaseRetriever, where: Sequence[str] | None) -> BaseRetriever:
    """The passages that meet the conditions. Raises ``HopsmithError`` when none does."""
    if not where:
        return retriever
    narrow = retriever.where(*where)
    if size_of(narrow) == 0:
        raise HopsmithError(f"no passage meets {' and '.join(where)}: loosen --where")
    return narrow


def refuse_gold(method: str) -> None:
    """Refuse a method that reads gold passages where there are no questions with gold."""
    if method_of(method).info.gold:
        raise HopsmithError(
            f"{method} reads the gold passages of a benchmark's questions: it works with hopsmith "
            "eval and compare alone"
        )


def golden_for(
    questions: Sequence[Question],
    benchmark: Benchmark,
    index: str | Path | None = None,
    engine: str | None = None,
    checkpoint: str | None = None,
) -> BaseRetriever:
    """The questions' gold passages, from the benchmark's corpus, or from the index if it has
    none."""
    if len(benchmark.corpus):
        return GoldenRetriever(questions, benchmark.corpus)
    found = retriever_for(index, benchmark, engine, checkpoint)
    if not isinstance(found, ReadsCorpus):
        raise HopsmithError("this index can't list its passages: give the corpus with --corpus")
    return GoldenRetriever(questions, found.corpus())


def own_retriever(name: str, index: str | Path | None = None, **of_an_index: Any) -> BaseRetriever:
    """A plug-in by name, looked for in the working folder too. Raises ``HopsmithError`` for flags
    that only an index understands."""
    given = [f"--{flag}" for flag, value in of_an_index.items() if value is not None]
    if given:
        raise HopsmithError(f"{' and '.join(given)} can't change --retriever {name}: leave it out")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return plugged(name, None if index is None else str(index))


def cached_index(benchmark: Benchmark, engine: str = "auto") -> Path:
    """Where the benchmark's corpus is indexed; built when it is not there yet."""
    digest = CorpusHash()
    for passage in benchmark.corpus:
        digest.add(passage)
    name = hashlib.sha256(digest.hex.encode()).hexdigest()[:16]
    kind = "" if engine == "auto" else f"-{engine}"
    folder = cache_folder() / "indexes" / f"{benchmark.name}-{name}{kind}"
    if not (folder / MANIFEST).is_file():
        from hopsmith.progress import passages_bar

        total = len(benchmark.corpus)
        print(f"indexing the corpus of {benchmark.name}, once …", file=sys.stderr)
        with passages_bar(total) as progress:
            build_index(
                benchmark.corpus,
                folder,
                engine=engine,
                total=total,
                progress=progress,
                overwrite=True,
            )
    return folder
