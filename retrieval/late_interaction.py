"""A ColBERT checkpoint whose weights can be trained: colbert-ai's model and its loss.

Its own ``Trainer`` wraps the model for a process group, which a CPU lacks; the loop is ours
(``optimize.retriever_training``). No dropout is applied, so that equal input gives equal gradients.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.checkpoint import CheckpointSpec
from retrieval.encoder import load_colbert, query_tokens
from retrieval.errors import IndexFault

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Weights = dict[str, Tensor]

AT_ONCE = 8
"""Passages of like length that go through the layers together."""
MASKED = -9999.0
"""Score of a passage token that doesn't count, as in colbert-ai."""
CACHE_BYTES = 3 << 30
"""Outputs of frozen layers are kept up to this size; float16, by token ids."""
LEFT_OUT = ("checkpoint", "collection", "triples", "queries", "root", "index_root", "index_path")
"""Keys of colbert-ai's metadata that hold paths of the machine it was trained on."""


class LateInteraction:
    """A checkpoint in training, on one device.

    ``frozen`` is how many layers, the embeddings with them, keep their weights (BERT only): their
    outputs are computed once a text. ``passage_tokens`` is where passages are cut. Raises
    ``IndexFault`` when the checkpoint has no such layers.
    """

    def __init__(
        self,
        spec: CheckpointSpec,
        *,
        negatives: int = 1,
        frozen: int = 0,
        passage_tokens: int | None = None,
    ) -> None:
        self.spec = spec
        self.frozen = frozen
        length = min(spec.doc_maxlen, passage_tokens or spec.doc_maxlen)
        self.model = load_colbert(spec, nway=negatives + 1, doc_maxlen=length)
        self._lower: dict[bytes, Tensor] = {}
        self._room = CACHE_BYTES
        self._tokenizer = self._doc_tokenizer()
        if frozen:
            self._freeze()

    def _doc_tokenizer(self) -> Any:
        from colbert.modeling.tokenization import DocTokenizer

        return DocTokenizer(self.model.colbert_config)

    def _freeze(self) -> None:
        lm = self.model.bert
        layers = getattr(getattr(lm, "encoder", None), "layer", None)
        if lm.config.model_type != "bert" or layers is None or self.frozen > len(layers):
            count = f"has {len(layers)} layers" if layers is not None else "is no BERT"
            raise IndexFault(
                f"{self.frozen} layers can't be frozen: {self.spec.name} {count}; lower --frozen"
            )
        for part in (lm.embeddings, *layers[: self.frozen]):
            part.requires_grad_(False)
        lm.forward = self._through

    def _through(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        """The encoder's output: frozen layers from the cache, the others as they are now."""
        lm = self.model.bert
        hidden = self._below(input_ids, attention_mask)
        mask = lm.get_extended_attention_mask(attention_mask, input_ids.shape)
        for layer in lm.encoder.layer[self.frozen :]:
            hidden = layer(hidden, mask)[0]
        return (hidden,)

    def _below(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        import torch

        lm = self.model.bert
        lengths = (input_ids != self.model.pad_token).sum(1).tolist()
        keys = [row[:n].cpu().numpy().tobytes() for row, n in zip(input_ids, lengths, strict=True)]
        unknown = [i for i, key in enumerate(keys) if key not in self._lower]
        fresh: dict[bytes, Tensor] = {}
        if unknown:
            with torch.no_grad():
                ids, seen = input_ids[unknown], attention_mask[unknown]
                hidden = lm.embeddings(input_ids=ids)
                mask = lm.get_extended_attention_mask(seen, ids.shape)
                for layer in lm.encoder.layer[: self.frozen]:
                    hidden = layer(hidden, mask)[0]
            for i, row in zip(unknown, hidden.half(), strict=True):
                fresh[keys[i]] = row[: lengths[i]].clone()
        for key, value in fresh.items():
            size = value.element_size() * value.nelement()
            if size <= self._room:
                self._room -= size
                self._lower[key] = value
        out = torch.zeros((*input_ids.shape, lm.config.hidden_size), device=input_ids.device)
        for i, key in enumerate(keys):
            known = fresh.get(key, self._lower.get(key))
            assert known is not None
            out[i, : lengths[i]] = known.float()
        return out

    def project(self, dim: int, texts: Sequence[str]) -> None:
        """Put a projection to ``dim`` dimensions after the one there is, ready to be trained: the
        principal directions of these passages' token vectors, which keep most of their products.
        Raises ``IndexFault`` when that is no projection."""
        import torch

        linear = self.model.linear
        if not 1 <= dim <= linear.out_features:
            raise IndexFault(
                f"--dim {dim}: {self.spec.name} has {linear.out_features} dimensions; give fewer"
            )
        tokens = np.concatenate(self.passages(texts)).astype(np.float64)
        _, directions = np.linalg.eigh(tokens.T @ tokens)
        top = torch.from_numpy(np.ascontiguousarray(directions[:, ::-1][:, :dim].T)).float()
        with torch.no_grad():
            weight = top.to(linear.weight.device) @ linear.weight
        linear.weight = torch.nn.Parameter(weight.contiguous())
        linear.out_features = dim
        self.model.colbert_config.dim = dim

    @property
    def device(self) -> Any:
        return self.model.device

    @property
    def dim(self) -> int:
        return int(self.model.linear.out_features)

    def loss(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Tensor:
        """colbert-ai's: cross entropy of each query's positive (its first passage) among its own
        passages, and among them all without its own other ones. Shape ().

        The same number as its ``score`` and ``compute_ib_loss`` give, from one product: theirs
        copies all passages for each query.
        """
        import torch

        own = self._query(list(queries))
        docs, kept = self._docs([text for texts in passages for text in texts])
        scores = _scores(own, docs, kept)
        count, nway = len(queries), len(passages[0])
        first = torch.arange(count, device=scores.device) * nway
        block = scores.view(count, count, nway)[torch.arange(count), torch.arange(count)]
        among = torch.nn.functional.cross_entropy
        loss: Tensor = among(block, torch.zeros_like(first))
        if count > 1:
            other = torch.zeros_like(scores, dtype=torch.bool).view(count, count, nway)
            other[torch.arange(count), torch.arange(count), 1:] = True
            loss = loss + among(scores.masked_fill(other.view_as(scores), -torch.inf), first)
        return loss

    def _query(self, texts: list[str]) -> Tensor:
        vectors: Tensor = self.model.query(*query_tokens(self.model, self.spec, texts))
        return vectors

    def _docs(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        """Vectors (passages, tokens, dim) and which of them count (passages, tokens, 1)."""
        import torch

        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors: list[Any] = [None] * len(texts)
        kept: list[Any] = [None] * len(texts)
        for start in range(0, len(order), AT_ONCE):
            places = order[start : start + AT_ONCE]
            ids, mask = self._tokenizer.tensorize([texts[i] for i in places])
            found, counts = self.model.doc(ids, mask, keep_dims="return_mask")
            for place, row, keep in zip(places, found, counts, strict=True):
                vectors[place], kept[place] = row, keep
        pad = torch.nn.utils.rnn.pad_sequence
        return pad(vectors, batch_first=True), pad(kept, batch_first=True)

    def queries(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Token vectors of each query, without its padding."""
        import torch

        out = []
        for start in range(0, len(texts), 32):
            with torch.inference_mode():
                found = self._query(list(texts[start : start + 32])).float().cpu().numpy()
            out += [v[np.any(v != 0, axis=1)] for v in found]
        return out

    def passages(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Token vectors of each passage, cut at ``passage_tokens``."""
        import torch

        out: list[Any] = [None] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), 64):
            places = order[start : start + 64]
            with torch.inference_mode():
                found, kept = self._docs([texts[i] for i in places])
            for place, vectors, keep in zip(places, found, kept, strict=True):
                counted = vectors[keep.squeeze(-1)]
                out[place] = (counted if len(counted) else vectors[:1]).float().cpu().numpy()
        return out

    def parameters(self) -> list[Any]:
        """Those that are trained."""
        return [p for _, p in self._trained()]

    def _trained(self) -> list[tuple[str, Any]]:
        return [
            (name, p)
            for name, p in self.model.model.named_parameters()
            if p.requires_grad and ".pooler." not in name
        ]

    def weights(self) -> Weights:
        """A copy of the trained weights."""
        return {name: p.detach().clone() for name, p in self._trained()}

    def put(self, weights: Mapping[str, Tensor]) -> None:
        """Set the trained weights. Raises ``IndexFault`` when they are another model's."""
        import torch

        mine = dict(self._trained())
        if {n: p.shape for n, p in mine.items()} != {n: w.shape for n, w in weights.items()}:
            raise IndexFault("these weights are of another model, or others of it are frozen")
        with torch.no_grad():
            for name, parameter in mine.items():
                parameter.copy_(weights[name])

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Write it into a folder as a checkpoint that colbert-ai reads; ``about`` joins its
        metadata."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        self.model.raw_tokenizer.save_pretrained(str(folder))
        config = self.model.model.config
        config.architectures = ["HF_ColBERT"]
        config.save_pretrained(str(folder))
        state = {k: v.detach().cpu().contiguous() for k, v in self.model.model.state_dict().items()}
        path = self.spec.folder / "artifact.metadata"
        metadata = json.loads(path.read_text()) if path.is_file() else {}
        metadata = {k: v for k, v in metadata.items() if k not in LEFT_OUT}
        metadata |= {
            "dim": self.dim,
            "doc_maxlen": self.spec.doc_maxlen,
            "query_maxlen": self.spec.query_maxlen,
            **about,
        }
        (folder / "artifact.metadata").write_text(json.dumps(metadata, indent=1) + "\n")
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def _scores(queries: Tensor, passages: Tensor, kept: Tensor) -> Tensor:
    """Sum over query tokens of the best passage token; shape (queries, passages)."""
    count, tokens, dim = queries.shape
    products = queries.reshape(-1, dim) @ passages.reshape(-1, dim).T
    products = products.masked_fill(~kept.reshape(1, -1), MASKED)
    tops: Tensor = products.view(count, tokens, len(passages), -1).amax(-1).sum(1)
    return tops


def maxsim(
    queries: Sequence[NDArray[np.float32]], passages: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """MaxSim of every query with every passage, divided by the query's tokens; shape (queries,
    passages)."""
    import torch

    starts = np.cumsum([0, *(len(p) for p in passages)])[:-1]
    tokens = torch.from_numpy(np.concatenate(passages)).T
    rows = []
    for query in queries:
        tops = np.maximum.reduceat((torch.from_numpy(query) @ tokens).numpy(), starts, axis=1)
        rows.append(tops.mean(0))
    return np.stack(rows)


def mixed(base: Mapping[str, Any], tuned: Mapping[str, Any], share: float) -> dict[str, Any]:
    """Weights between two: ``base`` + ``share`` (``tuned`` − ``base``)."""
    return {name: base[name] + share * (tuned[name] - base[name]) for name in base}
