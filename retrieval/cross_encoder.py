"""Cross-encoder: a sequence classifier that reads query and passage together (transformers)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.checkpoint import from_hub, seen, weights_file, weights_hash
from retrieval.errors import IndexFault
from retrieval.passage import Passage
from retrieval.segment import content

BATCH = 32
MOST_TOKENS = 512
QUERY_SHARE = 0.5
"""Of the tokens that the model reads, how many a query may take; a longer one is cut."""
OVERLAP = 1 / 16
"""Of the tokens that the model reads, how many a window of a long passage repeats."""
SAME = 1e-4
"""Scores closer than this are equal; such passages are ordered by id."""


class CrossEncoder:
    """Scores pairs by its one logit, or by the second of two. A passage longer than the model reads
    is scored by its best window. Loaded when first used."""

    def __init__(self, name: str, folder: Path, hub: str | None = None) -> None:
        """``name`` is what identity calls it; see ``cross_encoder``."""
        self.name = name
        self.folder = folder
        self.hub = hub
        self.weights = weights_hash(weights_file(folder))
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (CrossEncoder, (self.name, self.folder, self.hub))

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"kind": "cross-encoder", "name": self.name, "weights": self.weights}

    def order(
        self, queries: Sequence[str], found: Sequence[Sequence[Passage]]
    ) -> list[Sequence[int]]:
        out: list[Sequence[int]] = []
        for query, passages in zip(queries, found, strict=True):
            scores = self.scores(query, [content(p) for p in passages])
            keys = np.round(scores / SAME)
            out.append(sorted(range(len(passages)), key=lambda i: (-keys[i], passages[i].id)))
        return out

    def scores(self, query: str, texts: Sequence[str]) -> Any:
        """The logit of each text, shape (len,). Batches hold the pairs of one query alone, so that
        no score depends on what else is searched for."""
        import torch

        if not texts:
            return np.zeros(0, np.float32)
        with self._lock:
            tokenizer, model = self._load()
            room = min(MOST_TOKENS, tokenizer.model_max_length, _positions(model))
            query = _cut(query, tokenizer, int(room * QUERY_SHARE))
            read = tokenizer(
                [query] * len(texts),
                list(texts),
                truncation="only_second",
                max_length=room,
                stride=int(room * OVERLAP),
                return_overflowing_tokens=True,
            )
            owners = read.pop("overflow_to_sample_mapping")
            windows = [{k: v[i] for k, v in read.items()} for i in range(len(owners))]
            order = sorted(range(len(windows)), key=lambda i: len(windows[i]["input_ids"]))
            scores = np.full(len(texts), -np.inf, np.float32)
            for start in range(0, len(order), BATCH):
                places = order[start : start + BATCH]
                batch = tokenizer.pad([windows[i] for i in places], return_tensors="pt")
                with torch.inference_mode():
                    logits = model(**batch.to(model.device)).logits.float().cpu().numpy()
                found = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
                np.maximum.at(scores, [owners[i] for i in places], found)
        return scores

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            import torch
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            try:
                tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
                model = AutoModelForSequenceClassification.from_pretrained(
                    self.folder, local_files_only=True
                )
            except (OSError, ValueError, RuntimeError) as fault:
                raise IndexFault(
                    f"{self.name} is no cross-encoder that transformers can load "
                    f"({' '.join(str(fault).split())[:120]}): name another"
                ) from fault
            if model.config.num_labels > 2 or not tokenizer.is_fast:
                raise IndexFault(
                    f"{self.name} tells {model.config.num_labels} classes apart, or has a slow "
                    "tokenizer: a reranker has one or two, and a tokenizer.json"
                )
            tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
            model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
            self._loaded = (tokenizer, model)
        return self._loaded


def cross_encoder(name: str) -> CrossEncoder:
    """A cross-encoder by folder or hub name. Raises ``IndexFault`` when it can't be had."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return CrossEncoder(folder.resolve().name, folder.resolve())
    return CrossEncoder(name, from_hub(name, "cross-encoder"), hub=name)


def cross_encoder_of(identity: Mapping[str, Any], given: str | None = None) -> CrossEncoder:
    """The cross-encoder with this identity: ``given`` (a folder or hub name), else a folder seen
    before with these weights, else the hub's. Raises ``IndexFault`` when its weights differ."""
    name, weights = str(identity.get("name")), str(identity.get("weights"))
    before = None if given else seen(weights)
    hub = "/" in name
    if not (given or before or hub):
        raise IndexFault(
            f"the cross-encoder {name} isn't found here: say where it is with "
            "--rerank cross-encoder:FOLDER"
        )
    found = cross_encoder(given or (str(before) if before else name))
    if found.weights != weights:
        raise IndexFault(
            f"the cross-encoder {found.name} has other weights than the one measured: bring that "
            "one, or --force"
        )
    return CrossEncoder(name, found.folder, found.hub)


def _positions(model: Any) -> int:
    """Tokens that the model has positions for; RoBERTa's start after its padding token."""
    most = getattr(model.config, "max_position_embeddings", None) or MOST_TOKENS
    roberta = "roberta" in str(model.config.model_type)
    return int(most) - (model.config.pad_token_id + 1 if roberta else 0)


def _cut(text: str, tokenizer: Any, most: int) -> str:
    if len(text) <= most:
        return text
    read = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
    )
    offsets = read["offset_mapping"]
    return text if len(offsets) <= most else text[: offsets[most - 1][1]]
