"""colbert-ai's own ``Searcher``, asked as its documentation says, over the bench's PLAID index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from retrieval.checkpoint import checkpoint_of
from retrieval.compiled import compiled_scorers
from retrieval.manifest import Manifest
from retrieval.plaid import FOLDER, quiet
from retrieval.segment import Segment


class Reference:
    """Loads its checkpoint itself and encodes queries itself.

    A checkpoint that was not trained with [MASK] augmentation finds little by ``search`` (recall@5
    of 0.13 where 0.65 is to be had): its queries go as their own tokens to ``dense_search``.
    """

    def __init__(self, folder: Path, checkpoint: str | None = None) -> None:
        compiled_scorers()
        manifest = Manifest.read(folder)
        assert manifest.encoder is not None
        self.spec = checkpoint_of(manifest.encoder, manifest.checkpoint, checkpoint)
        (entry,) = manifest.segments
        segment = Segment(folder / "segments" / entry.name, None, 1)
        self.ids = [segment.passage(int(place)).id for place in segment.windows[:, 2]]
        with quiet():
            from colbert import Searcher

            self.searcher: Any = Searcher(
                index=FOLDER,
                index_root=str(segment.folder.resolve()),
                checkpoint=str(self.spec.folder),
                collection=[""],
                verbose=0,
            )

    def search(self, queries: list[str], k: int) -> list[list[str]]:
        """Ids of passages, a passage of several windows once. Several queries are encoded as a
        batch."""
        found = [self.searcher.dense_search(v, k)[0] for v in self._encoded(queries)]
        return [list(dict.fromkeys(self.ids[place] for place in places)) for places in found]

    def _encoded(self, queries: list[str]) -> list[Any]:
        if self.spec.augment:
            return list(self.searcher.encode(queries).split(1))
        model = self.searcher.checkpoint
        read = model.raw_tokenizer(
            queries,
            padding="longest",
            truncation=True,
            max_length=min(512, self.spec.doc_maxlen),
            return_tensors="pt",
        )
        vectors = model.query(read["input_ids"], read["attention_mask"])
        lengths = read["attention_mask"].sum(1).tolist()
        return [v[None, :n] for v, n in zip(vectors, lengths, strict=True)]
