"""Encoder: texts to token vectors, by colbert-ai's own ``Checkpoint``.

Passage vectors have shape (tokens, dim), unit length, float16; punctuation is left out as in
colbert-ai. Queries of a checkpoint that was trained with [MASK] augmentation get it; others are
their own tokens, [CLS] and [SEP] included.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.checkpoint import CheckpointSpec, checkpoint
from retrieval.threads import in_threads, one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float16]

QUERY_CACHE = 4096
BATCH = 32
SMALL = 500
"""Letters in a batch of queries below which one thread encodes it."""
FEW = 4
"""Queries at once up to which each is read by itself, by the quick reader."""
WORTH_IT = 16
"""Queries after which that one is made; it pays for itself after some hundred."""
WINDOW_OVERLAP = 0.1
"""Share of a window that the next one repeats, when a passage is longer than the checkpoint's."""

Progress = Callable[[int, int], None]
"""Told (passages encoded, passages in all)."""


class Encoder:
    """A checkpoint, loaded when first used. Thread-safe: texts are tokenised one batch at a time,
    since fast tokenizers keep padding state."""

    def __init__(self, spec: CheckpointSpec) -> None:
        self.spec = spec
        self._lock = threading.RLock()
        self._model: Any = None
        self._reader: Any = None
        """The model made quick at one query; False where it can't be."""
        self._read = 0
        """Queries read that came alone or a few at a time."""
        self._queries: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def __deepcopy__(self, memo: dict[int, Any]) -> Encoder:
        return self

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = _load(self.spec)
        return self._model

    def windows(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text as one window, or as several where it is longer than the checkpoint reads."""
        room = self.spec.doc_maxlen - 3
        out: list[list[str]] = []
        with self._lock:
            tokenizer = self._loaded().raw_tokenizer
            for text in texts:
                if len(text) <= room:
                    out.append([text])
                    continue
                offsets = tokenizer(
                    text,
                    add_special_tokens=False,
                    return_offsets_mapping=True,
                    truncation=False,
                    verbose=False,
                )["offset_mapping"]
                if len(offsets) <= room:
                    out.append([text])
                    continue
                step = max(1, int(room * (1 - WINDOW_OVERLAP)))
                starts = range(0, max(1, len(offsets) - int(room * WINDOW_OVERLAP)), step)
                out.append(
                    [
                        text[offsets[s][0] : offsets[min(s + room, len(offsets)) - 1][1]]
                        for s in starts
                    ]
                )
        return out

    def passages(
        self,
        texts: Sequence[str],
        progress: Progress | None = None,
        known: dict[str, Vectors] | None = None,
    ) -> list[Vectors]:
        """Token vectors of each text, in order. Batches are of texts of like length, so that
        little is padding; each core encodes its own (``retrieval.threads`` says why). What is
        ``known`` of them is taken out of there instead."""
        out: list[Any] = [known.pop(t, None) if known else None for t in texts]
        order = sorted((i for i, v in enumerate(out) if v is None), key=lambda i: len(texts[i]))
        done = len(texts) - len(order)

        def encode(places: list[int]) -> None:
            nonlocal done
            with one_thread:
                found = self._documents([texts[i] for i in places])
            with self._lock:
                for place, vectors in zip(places, found, strict=True):
                    out[place] = vectors
                done += len(places)
                if progress is not None:
                    progress(done, len(texts))

        in_threads(encode, [order[s : s + BATCH] for s in range(0, len(order), BATCH)])
        return out

    def _documents(self, texts: list[str]) -> list[Vectors]:
        import torch

        with self._lock:
            model = self._loaded()
            ids, mask = model.doc_tokenizer.tensorize(texts)
        with torch.inference_mode():
            vectors, keep = model.doc(ids, mask, keep_dims="return_mask")
        keep = keep.squeeze(-1).cpu().numpy()
        plain = vectors.half().cpu().numpy()
        found = []
        for i in range(len(texts)):
            kept = plain[i][keep[i]]
            found.append(kept if len(kept) else plain[i][:1])
        return found

    def queries(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Token vectors of each query, float32. Cached by text; each query's vectors are the same
        whatever else is in the batch, to rounding."""
        with self._lock:
            wanted = [t for t in dict.fromkeys(texts) if t not in self._queries]
            fresh: dict[str, NDArray[np.float32]] = {}
            order = sorted(wanted, key=len)
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                small = sum(map(len, batch)) < SMALL
                with one_thread if small else nullcontext():
                    fresh.update(zip(batch, self._encode_queries(batch), strict=True))
            known = {t: fresh[t] if t in fresh else self._queries[t] for t in dict.fromkeys(texts)}
            for text, vectors in known.items():
                self._queries[text] = vectors
                self._queries.move_to_end(text)
            while len(self._queries) > QUERY_CACHE:
                self._queries.popitem(last=False)
            return [known[t] for t in texts]

    def forget_queries(self) -> None:
        """Empty the query cache (benches)."""
        with self._lock:
            self._queries.clear()

    def _encode_queries(self, texts: list[str]) -> list[NDArray[np.float32]]:
        model = self._loaded()
        if len(texts) > FEW:
            return self._tokens(model, texts)
        self._read += len(texts)
        if self._reader is None and self._read > WORTH_IT:
            self._reader = _reader(model, self.spec) or False
        if not self._reader:
            return self._tokens(model, texts)
        return [self._tokens(self._reader, [text])[0] for text in texts]

    def _tokens(self, model: Any, texts: list[str]) -> list[NDArray[np.float32]]:
        import torch

        ids, mask = query_tokens(model, self.spec, texts)
        with torch.inference_mode():
            vectors = model.query(ids, mask).float().cpu().numpy()
        if self.spec.augment:
            return [np.ascontiguousarray(v) for v in vectors]
        lengths = mask.sum(1).tolist()
        return [np.ascontiguousarray(v[:n]) for v, n in zip(vectors, lengths, strict=True)]


def encoder(name: str | None = None) -> Encoder:
    """The process's one encoder of a checkpoint: None, a folder or a hub name."""
    return encoder_of(checkpoint(name))


@cache
def encoder_of(spec: CheckpointSpec) -> Encoder:
    """The process's one encoder of a checkpoint that was found."""
    return Encoder(spec)


def pooled(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """The mean of token vectors, at unit length: shape (dim,)."""
    mean: NDArray[np.float32] = vectors.astype(np.float32).mean(0)
    norm = float(np.linalg.norm(mean))
    unit: NDArray[np.float32] = mean / norm if norm else mean
    return unit


def _load(spec: CheckpointSpec) -> Any:
    """colbert-ai's Checkpoint, as its searcher uses it."""
    with colbert_quietly():
        from colbert.modeling.checkpoint import Checkpoint

        model = Checkpoint(str(spec.folder), colbert_config=_config(spec), verbose=0)
    model.amp_manager.activated = False
    return model


def _reader(model: Any, spec: CheckpointSpec) -> Any:
    from retrieval.query_reader import quick_reader

    samples = [query_tokens(model, spec, ["word " * n]) for n in (8, 2, 20, 60)]
    with colbert_quietly():
        return quick_reader(model, samples)


def load_colbert(spec: CheckpointSpec, **settings: Any) -> Any:
    """colbert-ai's ColBERT, whose vectors carry gradients; ``settings`` are of its config."""
    with colbert_quietly():
        from colbert.modeling.colbert import ColBERT

        return ColBERT(str(spec.folder), colbert_config=_config(spec, **settings))


def query_tokens(model: Any, spec: CheckpointSpec, texts: list[str]) -> tuple[Any, Any]:
    """Token ids and attention mask of queries, as the checkpoint was trained to read them."""
    if spec.augment:
        ids, mask = _query_tokenizer(model).tensorize(texts)
        return ids, mask
    read = model.raw_tokenizer(
        texts,
        padding="longest",
        truncation=True,
        max_length=min(512, spec.doc_maxlen),
        return_tensors="pt",
    )
    return read["input_ids"], read["attention_mask"]


def _query_tokenizer(model: Any) -> Any:
    if not hasattr(model, "query_tokenizer"):
        with colbert_quietly():
            from colbert.modeling.tokenization import QueryTokenizer

            model.query_tokenizer = QueryTokenizer(model.colbert_config)
    return model.query_tokenizer


def _config(spec: CheckpointSpec, **settings: Any) -> Any:
    from colbert.infra import ColBERTConfig

    here = {
        "checkpoint": str(spec.folder),
        "dim": spec.dim,
        "doc_maxlen": spec.doc_maxlen,
        "query_maxlen": spec.query_maxlen,
    }
    return ColBERTConfig(**{**here, **settings})


@contextmanager
def colbert_quietly() -> Iterator[None]:
    """A block that imports and loads from colbert-ai: its prints go to stderr, the start method of
    processes stays, and the C++ scorer that only its searcher uses is not compiled."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import logging
    import sys
    import warnings

    with kept_start_method(), redirect_stdout(sys.stderr):
        from colbert.modeling.colbert import ColBERT

        compiled = hasattr(ColBERT, "loaded_extensions")
        if not compiled:
            ColBERT.loaded_extensions = True
        transformers_log = logging.getLogger("transformers")
        level = transformers_log.level
        transformers_log.setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            transformers_log.setLevel(level)
            if not compiled:
                del ColBERT.loaded_extensions


@contextmanager
def kept_start_method() -> Iterator[None]:
    """``import colbert`` sets multiprocessing's start method to ``spawn`` for the whole process,
    and lets tokenizers start threads; put back what was there."""
    import multiprocessing

    before = multiprocessing.get_start_method(allow_none=True)
    parallel = os.environ.get("TOKENIZERS_PARALLELISM", "false")
    try:
        yield
    finally:
        os.environ["TOKENIZERS_PARALLELISM"] = parallel
        if multiprocessing.get_start_method(allow_none=True) != before:
            multiprocessing.set_start_method(before, force=True)


def rate(started: float, done: int) -> float:
    """Passages a second since ``started`` (``time.perf_counter``)."""
    return done / max(time.perf_counter() - started, 1e-9)
