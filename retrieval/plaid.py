"""PLAID (Santhanam et al., 2022): colbert-ai's own index and scorer over one segment's windows.

The index is made by colbert-ai's ``CollectionIndexer`` and searched by its ``IndexScorer``, the two
that its ``Indexer`` and ``Searcher`` drive. We drive them ourselves, because the drivers spawn a
process and wait for ever when it dies, encode every passage twice, keep the knobs of their first
search, and write texts and absolute paths into the index. Ours is fed the segment's vectors, which
are encoded already, and runs in this process.

Deviations: k-means reads at most ``POINTS_A_CENTROID`` token vectors a centroid; a search that
finds too few looks into more cells until it has enough; the GPU is left alone.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.compiled import compiled_scorers
from retrieval.encoder import kept_start_method

if TYPE_CHECKING:
    from retrieval.segment import Segment

FOLDER = "plaid"
LEAST = 100
"""Windows below which a segment has no PLAID index and is scored exactly: k-means needs more points
than centroids, and there is nothing to gain."""
NBITS = 4
"""Bits of a residual's dimension."""
POINTS_A_CENTROID = 40
CHUNK = 4_096
"""Windows compressed at once."""
SEED = 12345
"""Of colbert-ai's launcher."""


def build_plaid(segment: Segment, dim: int) -> bool:
    """Write the PLAID index of a segment into its folder; False, and nothing, when the segment is
    too small for one. Raises ``IndexFault`` when colbert-ai's scorers can't be compiled."""
    if len(segment.windows) < LEAST:
        return False
    compiled_scorers()
    folder = segment.folder / FOLDER
    folder.mkdir()
    tokens = int(segment.windows[-1, 1])
    print(f"PLAID: clustering {tokens:,} token vectors …", file=sys.stderr)
    with quiet():
        indexer = _indexer(segment, folder.resolve(), dim)
        indexer.run([])
    for name in ("metadata.json", "plan.json"):
        _forget_paths(folder / name)
    return True


def _indexer(segment: Segment, folder: Path, dim: int) -> Any:
    import faiss
    import torch
    from colbert.data.collection import Collection
    from colbert.indexing.collection_indexer import CollectionIndexer
    from colbert.indexing.index_saver import IndexSaver

    class Windows(Collection):  # type: ignore[misc]
        """Numbers of windows in place of texts."""

        def get_chunksize(self) -> int:
            return min(CHUNK, 1 + len(self))

    class Encoded:
        """Answers for colbert-ai's encoder with what is encoded already."""

        def encode_passages(self, numbers: Sequence[int]) -> tuple[Any, list[int]]:
            vectors, starts = segment.vectors(numbers)
            return torch.from_numpy(vectors), np.diff(starts, append=len(vectors)).tolist()

    class Indexer(CollectionIndexer):  # type: ignore[misc]
        def __init__(self) -> None:
            """Without colbert-ai's own: it would load the checkpoint, which has done its work."""
            self.verbose = 0
            self.config = _config(dim, index_path=str(folder))
            self.rank, self.nranks, self.use_gpu = 0, 1, False
            self.collection = Windows(data=list(range(len(segment.windows))))
            self.encoder = Encoded()
            self.saver = IndexSaver(self.config)

        def _sample_embeddings(self, sampled_pids: set[int]) -> float:
            """The sample for k-means, bounded: colbert-ai's takes 8 GB for 100,000 passages."""
            lengths = segment.windows[:, 1] - segment.windows[:, 0]
            mean = float(lengths.mean())
            cells = 2 ** np.floor(np.log2(16 * np.sqrt(lengths.sum())))
            wanted = max(LEAST, int(cells * POINTS_A_CENTROID / 0.95 / mean))
            numbers = sorted(
                random.Random(SEED).sample(range(len(lengths)), min(wanted, len(lengths)))
            )
            vectors, _ = segment.vectors(numbers)
            torch.save(torch.from_numpy(vectors).half(), folder / "sample.0.pt")
            self.num_sample_embs, self.avg_doclen_est = len(vectors), mean
            return mean

        def _train_kmeans(self, sample: Any, shared_lists: Any) -> Any:
            """As colbert-ai's, without its report on stdout."""
            means = faiss.Kmeans(
                dim, self.num_partitions, niter=self.config.kmeans_niters, seed=123, verbose=False
            )
            means.train(sample.float().numpy())
            return torch.nn.functional.normalize(torch.from_numpy(means.centroids), dim=-1)

    return Indexer()


def _config(dim: int, **settings: Any) -> Any:
    from colbert.infra import ColBERTConfig

    return ColBERTConfig(
        dim=dim, nbits=NBITS, nranks=1, rank=0, avoid_fork_if_possible=True, **settings
    )


def _forget_paths(path: Path) -> None:
    """Keep what a load needs of the configuration: colbert-ai writes this machine's folders."""
    found = json.loads(path.read_text())
    found["config"] = {k: found["config"][k] for k in ("dim", "nbits", "kmeans_niters")}
    path.write_text(json.dumps(found, indent=1))


@dataclass(frozen=True)
class _Knobs:
    """What ``IndexScorer`` reads of a configuration, with no GPU to be seen."""

    ncells: int
    centroid_score_threshold: float
    ndocs: int
    query_maxlen: int
    interaction: str = "colbert"
    total_visible_gpus: int = 0


class Plaid:
    """A segment's PLAID index, loaded. Nothing in it changes, so that threads may share it."""

    def __init__(self, folder: Path) -> None:
        compiled_scorers()
        with quiet():
            from colbert.search.index_storage import IndexScorer

            self._scorer = IndexScorer(str(folder.resolve()), use_gpu=False)
        self.cells = len(self._scorer.codec.centroids)
        self.windows = len(self._scorer.doclens)

    def search(
        self, query: Any, n: int, enough: Callable[[Any], bool], alive: Any
    ) -> tuple[Any, Any]:
        """Windows and their MaxSim, divided by query tokens, in no order.

        ``query`` has shape (tokens, dim). The knobs are colbert-ai's for ``n`` results. Where what
        was found is not ``enough`` (it is told the windows), more cells are looked into, at last
        all. ``alive`` marks the windows that may be found.
        """
        import torch

        ncells, threshold, ndocs = knobs(n)
        tokens = torch.from_numpy(np.ascontiguousarray(query, np.float32))[None]
        living = None if alive.all() else torch.from_numpy(alive)
        while True:
            config = _Knobs(
                ncells=min(ncells, self.cells),
                centroid_score_threshold=threshold,
                ndocs=ndocs,
                query_maxlen=len(query),
            )
            places, scores = self._scorer.rank(
                config, tokens, filter_fn=None if living is None else lambda p: p[living[p.long()]]
            )
            found = np.asarray(places, np.int64)
            everything = ncells >= self.cells and ndocs >= 4 * self.windows
            if everything or enough(found):
                return found, np.asarray(scores, np.float32) / len(query)
            ncells, threshold, ndocs = 4 * ncells, -1.0, 4 * ndocs


def knobs(n: int) -> tuple[int, float, int]:
    """Cells looked into a query token, the centroid score below which one is passed over, and the
    windows that are scored by centroids: colbert-ai's own for ``n`` results. Its ``Searcher`` sets
    them at its first search, for good."""
    if n <= 10:
        return 1, 0.5, 256
    if n <= 100:
        return 2, 0.45, 1024
    return 4, 0.4, max(4 * n, 4096)


@contextmanager
def quiet() -> Iterator[None]:
    """colbert-ai reports at length on both streams, draws from the process's random numbers and
    takes any GPU that there is."""
    import torch

    state = random.getstate()
    with (
        kept_start_method(),
        torch.random.fork_rng(devices=[]),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        from colbert.infra.config.settings import RunSettings

        gpus = RunSettings.total_visible_gpus
        RunSettings.total_visible_gpus = 0
        random.seed(SEED)
        torch.manual_seed(SEED)
        try:
            yield
        finally:
            RunSettings.total_visible_gpus = gpus
            random.setstate(state)
