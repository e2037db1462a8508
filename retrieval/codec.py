"""How token vectors are kept on disk: as float16, or as product-quantised codes (faiss) of at most
64 bytes a token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from retrieval.errors import IndexFault, undamaged
from retrieval.threads import in_threads, one_thread

PQ_BYTES = 64
"""Codes a token, at most: dimensions are dealt evenly over them, so that 96 take 48."""
PIECE = 1024
"""Token vectors that are turned into codes at once: what they are compared with stays in a core's
cache."""
SUMMED = 64
"""Query tokens up to which their products with codes are summed from a table."""
POINTS, ROUNDS = 256, 10
"""Of k-means: vectors a centroid, at most, and iterations."""


class Codec(Protocol):
    """Token vectors to what is stored, and back."""

    name: str
    width: int
    """Columns of what is stored."""
    dtype: Any

    def encode(self, vectors: Any) -> Any: ...
    def decode(self, stored: Any) -> Any: ...
    def products(self, tokens: Any, stored: Any) -> Any:
        """Inner products of query tokens (m, dim), float32, with stored vectors: shape (m, n)."""
        ...

    def save(self, folder: Path) -> None: ...


class Float16:
    """As they are: two bytes a dimension."""

    name = "float16"
    dtype = np.float16

    def __init__(self, dim: int) -> None:
        self.width = dim

    def encode(self, vectors: Any) -> Any:
        return vectors.astype(np.float16)

    def decode(self, stored: Any) -> Any:
        import torch

        return torch.from_numpy(stored).float().numpy()

    def products(self, tokens: Any, stored: Any) -> Any:
        return inner(tokens, self.decode(stored))

    def save(self, folder: Path) -> None:
        """Nothing to keep."""


class ProductQuantised:
    """faiss' product quantiser: codes of 8 bits, each of an even part of the dimensions. Where
    parts don't come out even, vectors are padded with zeros."""

    name = "pq"
    dtype = np.uint8
    FILE = "quantiser.npy"

    def __init__(self, centroids: Any, dim: int) -> None:
        """``centroids`` have shape (codes, 256, dimensions a code)."""
        import faiss

        codes, _, part = centroids.shape
        self.width = codes
        self.dim = dim
        self._halves = (centroids.astype(np.float32) ** 2).sum(2) / 2
        self._pq: Any = faiss.ProductQuantizer(codes * part, codes, 8)
        faiss.copy_array_to_vector(
            np.ascontiguousarray(centroids, np.float32).ravel(), self._pq.centroids
        )
        self.centroids = np.ascontiguousarray(centroids, np.float32)

    @classmethod
    def train(cls, sample: Any, seed: int = 0) -> ProductQuantised:
        """Fit to token vectors of shape (n, dim): 256 centroids for each part."""
        n, dim = sample.shape
        if n < 256:
            sample = np.concatenate([sample] * (256 // n + 1))
        part = -(-dim // PQ_BYTES)
        codes = -(-dim // part)
        parts = np.split(_padded(sample, codes * part), codes, axis=1)
        found = in_threads(_centroids, parts, [1234 + seed] * codes)
        return cls(np.stack(found), dim)

    def encode(self, vectors: Any) -> Any:
        pieces = np.array_split(vectors, max(1, -(-len(vectors) // PIECE)))
        return np.concatenate(in_threads(self._codes, pieces))

    def _codes(self, vectors: Any) -> Any:
        """The nearest centroid of each part: faiss' ``compute_codes`` gives the same in nine times
        the time."""
        import torch

        count, (codes, centroids, part) = len(vectors), self.centroids.shape
        rows = _padded(vectors, self._pq.d).reshape(count, codes, part).transpose(1, 0, 2)
        parts = torch.from_numpy(np.ascontiguousarray(rows))
        centres, halves = torch.from_numpy(self.centroids), torch.from_numpy(self._halves)
        nearness = torch.empty(count, centroids)
        out = np.empty((count, codes), np.uint8)
        with one_thread:
            for i in range(codes):
                torch.addmm(-halves[i], parts[i], centres[i].T, out=nearness)
                out[:, i] = nearness.numpy().argmax(1)
        return out

    def decode(self, stored: Any) -> Any:
        with _one_faiss_thread():
            return self._pq.decode(np.ascontiguousarray(stored))[:, : self.dim]

    def products(self, tokens: Any, stored: Any) -> Any:
        """For the tokens of a query or two, sums of what each of them has with each centroid, which
        takes half the time of decoding."""
        import torch

        if len(tokens) > SUMMED:
            return inner(tokens, self.decode(stored))
        codes, centroids, part = self.centroids.shape
        own = torch.from_numpy(_padded(tokens, self._pq.d)).reshape(-1, codes, part)
        table = torch.from_numpy(self.centroids) @ own.permute(1, 2, 0)
        rows = torch.from_numpy(stored).int() + torch.arange(0, codes * centroids, centroids).int()
        summed = torch.nn.functional.embedding_bag(
            rows, table.reshape(codes * centroids, -1), mode="sum"
        )
        return summed.T.numpy()

    def save(self, folder: Path) -> None:
        np.save(folder / self.FILE, self.centroids)


def inner(tokens: Any, vectors: Any) -> Any:
    """Inner products of two sets of float32 vectors, shapes (m, dim) and (n, dim): (m, n)."""
    import torch

    return (torch.from_numpy(tokens) @ torch.from_numpy(vectors).T).numpy()


def _padded(vectors: Any, dim: int) -> Any:
    """Float32 rows of ``dim`` columns, the last of them zeros where there were fewer."""
    rows = np.ascontiguousarray(vectors, np.float32)
    lacking = dim - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, lacking))) if lacking else rows


def _centroids(part: Any, seed: int) -> Any:
    """k-means of one part of the vectors; shape (256, part's width)."""
    import faiss

    with _one_faiss_thread():
        means = faiss.Kmeans(
            part.shape[1],
            256,
            niter=ROUNDS,
            seed=seed,
            min_points_per_centroid=1,
            max_points_per_centroid=POINTS,
        )
        means.train(np.ascontiguousarray(part))
    return means.centroids


@contextmanager
def _one_faiss_thread() -> Iterator[None]:
    """faiss' threads spin as torch's do (``retrieval.threads``). OpenMP counts them for each
    calling thread."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def open_codec(name: str, folder: Path, dim: int) -> Codec:
    """The codec that an index was written with."""
    if name == Float16.name:
        return Float16(dim)
    if name == ProductQuantised.name:
        with undamaged(folder):
            return ProductQuantised(np.load(folder / ProductQuantised.FILE), dim)
    raise IndexFault(f"the index keeps its vectors as {name!r}: written by a newer version?")
