"""Segment: some passages of an index with their vectors, written once, then memory-mapped.

Passages lie as JSONL with an offset table, so that millions don't sit in lists. A passage longer
than the checkpoint reads has several windows; ``windows[i]`` are ``(start, end, passage)``: rows of
``vectors`` and the passage's place in the segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.codec import Codec, inner
from retrieval.corpus import CorpusHash
from retrieval.embedding import Embedder
from retrieval.encoder import Encoder, Progress, pooled
from retrieval.errors import undamaged
from retrieval.passage import Passage
from retrieval.plaid import FOLDER as PLAID
from retrieval.plaid import Plaid

CHUNK = 2048
"""Passages encoded between two writes: bounds the memory of a build."""


def write_segment(
    folder: Path,
    passages: Iterable[Passage],
    encoder: Encoder | Embedder | None,
    codec: Codec | None,
    *,
    known: dict[str, Any] | None = None,
    total: int | None = None,
    progress: Progress | None = None,
) -> tuple[int, int, CorpusHash]:
    """Write passages (and their vectors, when there is an encoder) to a folder, streaming.

    ``known`` are windows' vectors that were encoded before; they are taken out of there. Returns
    (passages, tokens, corpus hash). Raises ``OSError`` when the disk is full; the caller
    removes the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    offsets, spans, tokens, count = [0], [], 0, 0
    corpus_hash = CorpusHash()
    with (
        (folder / "passages.jsonl").open("wb") as texts,
        (folder / "vectors.bin").open("wb") as vectors,
        (folder / "pooled.bin").open("wb") as means,
    ):
        for chunk in _chunks(passages, CHUNK):
            for passage in chunk:
                corpus_hash.add(passage)
                offsets.append(offsets[-1] + texts.write(_line(passage)))
            if encoder is not None and codec is not None:
                windows = encoder.windows([content(p) for p in chunk])
                flat = [w for ws in windows for w in ws]
                owner = [count + i for i, ws in enumerate(windows) for _ in ws]

                def tell(done: int, of: int, base: int = count, n: int = len(chunk)) -> None:
                    if progress is not None:
                        progress(base + done * n // of, total or base + n)

                encoded = encoder.passages(flat, tell, known)
                vectors.write(codec.encode(np.concatenate(encoded)).tobytes())
                for place, found in zip(owner, encoded, strict=True):
                    means.write(pooled(found).astype(np.float16).tobytes())
                    spans.append((tokens, tokens + len(found), place))
                    tokens += len(found)
            elif progress is not None:
                progress(count + len(chunk), total or count + len(chunk))
            count += len(chunk)
    np.save(folder / "offsets.npy", np.asarray(offsets, np.int64))
    np.save(folder / "windows.npy", np.asarray(spans, np.int64).reshape(-1, 3))
    return count, tokens, corpus_hash


def content(passage: Passage) -> str:
    """What is encoded and indexed of a passage."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


def _line(passage: Passage) -> bytes:
    row: dict[str, Any] = {"id": passage.id, "title": passage.title, "text": passage.text}
    if passage.metadata:
        row["metadata"] = dict(passage.metadata)
    return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _chunks(items: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    chunk: list[Passage] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class Segment:
    """A written segment, read through memory maps. With ``keep`` its vectors stay decoded in memory
    once they were read. Raises ``IndexFault`` where a file is shorter or longer than it must be."""

    def __init__(self, folder: Path, codec: Codec | None, dim: int, keep: bool = False) -> None:
        self.folder = folder
        self.codec = codec
        self.keep = keep
        width = codec.width if codec is not None else dim
        dtype = codec.dtype if codec is not None else np.float16
        with undamaged(folder):
            self.offsets = np.load(folder / "offsets.npy", mmap_mode="r")
            self.windows = np.load(folder / "windows.npy")
            sizes = {"passages.jsonl": int(self.offsets[-1])}
            if codec is not None:
                tokens = int(self.windows[-1, 1]) if len(self.windows) else 0
                sizes["vectors.bin"] = tokens * width * np.dtype(dtype).itemsize
                sizes["pooled.bin"] = len(self.windows) * dim * np.dtype(np.float16).itemsize
            for name, size in sizes.items():
                if (folder / name).stat().st_size != size:
                    raise ValueError(f"{name} must have {size:,} bytes")
        self._texts = _map(folder / "passages.jsonl", np.uint8, 1)
        self._vectors = _map(folder / "vectors.bin", dtype, width)
        self.pooled = _map(folder / "pooled.bin", np.float16, dim)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def passage(self, place: int) -> Passage:
        start, end = int(self.offsets[place]), int(self.offsets[place + 1])
        row = json.loads(self._texts[start:end].tobytes().decode("utf-8", "surrogatepass"))
        return Passage(row["id"], row["title"], row["text"], metadata=row.get("metadata") or {})

    def passages(self) -> Iterator[Passage]:
        return (self.passage(i) for i in range(len(self)))

    def vectors(self, windows: Sequence[int]) -> tuple[Any, Any]:
        """Decoded token vectors of some windows, joined, float32, and where each begins."""
        rows, starts = self._rows(windows)
        return (rows if self.keep else self._decode(rows)), starts

    def products(self, tokens: Any, windows: Sequence[int]) -> tuple[Any, Any]:
        """Inner products of query tokens (m, dim) with the token vectors of some windows, joined:
        shape (m, n), and where each window begins."""
        assert self.codec is not None
        rows, starts = self._rows(windows)
        found = inner(tokens, rows) if self.keep else self.codec.products(tokens, rows)
        return found, starts

    def _rows(self, windows: Sequence[int]) -> tuple[Any, Any]:
        spans = self.windows[np.asarray(windows, np.int64)]
        ends = np.cumsum(spans[:, 1] - spans[:, 0])
        starts = np.concatenate(([0], ends[:-1]))
        source = self._decoded if self.keep else self._vectors
        if (spans[1:, 0] == spans[:-1, 1]).all():
            return source[spans[0, 0] : spans[-1, 1]], starts
        return np.concatenate([source[s:e] for s, e, _ in spans]), starts

    @cached_property
    def _decoded(self) -> Any:
        return self._decode(self._vectors)

    def plaid(self) -> Plaid | None:
        """Its PLAID index, loaded, where it has one."""
        folder = self.folder / PLAID
        return Plaid(folder) if folder.is_dir() else None

    def _decode(self, rows: Any) -> Any:
        assert self.codec is not None
        return self.codec.decode(rows)

    def stored(self, place: int) -> tuple[bytes, list[bytes], list[bytes], list[int]]:
        """A passage as it lies here: its line, and of its windows the vectors, the pooled vector
        and the number of tokens."""
        rows = np.arange(*np.searchsorted(self.windows[:, 2], (place, place + 1)))
        spans = self.windows[rows]
        return (
            self._texts[self.offsets[place] : self.offsets[place + 1]].tobytes(),
            [self._vectors[s:e].tobytes() for s, e, _ in spans],
            [self.pooled[row].tobytes() for row in rows],
            [int(e - s) for s, e, _ in spans],
        )


def _map(path: Path, dtype: Any, width: int) -> Any:
    size = path.stat().st_size
    if size == 0:
        return np.zeros((0, width) if width > 1 else (0,), dtype)
    flat = np.asarray(np.memmap(path, dtype=dtype, mode="c"))
    return flat.reshape(-1, width) if width > 1 else flat
