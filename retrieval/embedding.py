"""Embedding: texts to one vector each, by an endpoint or a function (``dspy.Embedder``).

To an index it is an encoder whose passages have one token: ``dense`` compares the vectors, and the
other engines work over them too (two-stage is then BM25 fused with them). What the index keeps of
it is its name and its dimensions. Where a server of one's own is, and its key, come from
``HOPSMITH_EMBEDDER_BASE`` and ``HOPSMITH_EMBEDDER_KEY``, or are a provider's own variables.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.encoder import QUERY_CACHE, WINDOW_OVERLAP, Progress
from retrieval.errors import EmbeddingFault, IndexFault
from retrieval.journal import Journal

BASE, KEY = "HOPSMITH_EMBEDDER_BASE", "HOPSMITH_EMBEDDER_KEY"
WINDOW = 300
"""Words of a passage that are embedded at once: within the 512 tokens that many models read."""
BATCH = 64
"""Windows in one request."""
AT_ONCE = 4
"""Requests under way."""
ATTEMPTS = 6
"""Tries of one request, with 31 s of waiting between them in all."""
FIRST_WAIT = 1.0
PATIENCE = 120.0
"""Seconds to wait for a reply."""
_WORD = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]|[^\W\u3040-\u9fff\uac00-\ud7af]{1,30}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

Embed = Callable[[list[str]], Any]


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """What an index must know of what embedded it."""

    name: str
    """``PROVIDER/MODEL`` as LiteLLM knows it, or ``module:function``."""
    own: bool
    """Whether a server of one's own answered, and not the provider."""
    dim: int
    hub: None = None

    @property
    def identity(self) -> dict[str, Any]:
        return {"embedder": self.name, "own": self.own, "dim": self.dim, "window": WINDOW}


class Embedder:
    """Texts to vectors of shape (1, dim), unit length. Thread-safe; queries are cached by text.

    What fails and may pass (a busy server, a lost connection) is tried again; ``EmbeddingFault``
    says what doesn't pass.
    """

    def __init__(
        self,
        spec: EmbedderSpec,
        embed: Embed,
        journal: Journal | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.spec = spec
        self.embed = embed
        self.journal = journal
        self._sleep = sleep
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, Any] = OrderedDict()

    def __deepcopy__(self, memo: dict[int, Any]) -> Embedder:
        return self

    def noting(self, place: Path) -> Embedder:
        """The same, keeping what it embeds in a journal at ``place`` until it is forgotten."""
        return Embedder(self.spec, self.embed, Journal(place, self.spec.name), self._sleep)

    def windows(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text as one window, or as several where it is long."""
        return [text_windows(text) for text in texts]

    def passages(
        self,
        texts: Sequence[str],
        progress: Progress | None = None,
        known: dict[str, Any] | None = None,
    ) -> list[Any]:
        """The vector of each text, in order, float16. What the journal has isn't asked for, nor
        what is ``known``, which is taken out of there."""
        before = known or {}
        known = {t: before.pop(t)[0] for t in dict.fromkeys(texts) if t in before}
        if self.journal:
            known |= self.journal.read([t for t in texts if t not in known])
        wanted = [text for text in dict.fromkeys(texts) if text not in known]
        batches = [wanted[i : i + BATCH] for i in range(0, len(wanted), BATCH)]
        done = len(texts) - len(wanted)
        with ThreadPoolExecutor(1 if _FUNCTION.fullmatch(self.spec.name) else AT_ONCE) as pool:
            futures = [pool.submit(self._noted, batch) for batch in batches]
            try:
                for batch, future in zip(batches, futures, strict=True):
                    known.update(future.result())
                    done += len(batch)
                    if progress is not None:
                        progress(min(done, len(texts)), len(texts))
            finally:
                for future in futures:
                    future.cancel()
        return [known[text][None] for text in texts]

    def _noted(self, texts: list[str]) -> dict[str, Any]:
        """By text; written to the journal before anything can break off."""
        found = dict(zip(texts, self._vectors(texts).astype(np.float16), strict=True))
        if self.journal:
            self.journal.write(found)
        return found

    def queries(self, texts: Sequence[str]) -> list[Any]:
        """The vector of each query, float32; of a very long one, of its beginning."""
        with self._lock:
            known = {t: self._queries[t] for t in texts if t in self._queries}
        wanted = [t for t in dict.fromkeys(texts) if t not in known]
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            vectors = self._vectors([text_windows(text)[0] for text in batch])
            known.update(zip(batch, vectors, strict=True))
        with self._lock:
            for text, vector in known.items():
                self._queries[text] = vector
                self._queries.move_to_end(text)
            while len(self._queries) > QUERY_CACHE:
                self._queries.popitem(last=False)
        return [known[text][None] for text in texts]

    def forget_queries(self) -> None:
        """Empty the query cache (benches)."""
        with self._lock:
            self._queries.clear()

    def _vectors(self, texts: list[str]) -> Any:
        """Unit vectors, float32, shape (len, dim)."""
        found = _asked(self.embed, texts, self.spec.name, self._sleep)
        if found.shape != (len(texts), self.spec.dim):
            raise EmbeddingFault(
                f"{self.spec.name} gave vectors of shape {found.shape} for {len(texts)} texts; "
                f"the index has {self.spec.dim} dimensions: is it the same model?"
            )
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        if not np.isfinite(norms).all():
            raise EmbeddingFault(f"{self.spec.name} gave vectors that are no numbers")
        return found / np.where(norms > 0, norms, 1)


def embedder(name: str) -> Embedder:
    """An embedder for a new index: ``PROVIDER/MODEL``, on a server of one's own where
    ``HOPSMITH_EMBEDDER_BASE`` names it, or ``module:function`` (a list of texts to an array). Asks
    for one vector to learn its dimensions. Raises ``EmbeddingFault``."""
    base = os.environ.get(BASE)
    own = bool(base) and not _FUNCTION.fullmatch(name)
    embed = _embed(name, own, base)
    dim = _asked(embed, ["dimensions"], name, time.sleep, attempts=2).shape[1]
    return Embedder(EmbedderSpec(name, own, int(dim)), embed)


def is_embedder(identity: Mapping[str, Any]) -> bool:
    """Whether this identity of an index's encoder is an embedder's."""
    return "embedder" in identity


def embedder_of(identity: Mapping[str, Any]) -> Embedder:
    """The process's one embedder with this ``EmbedderSpec.identity``. Raises ``EmbeddingFault``
    when it can't be reached as it was: a server of one's own that no variable names."""
    if identity.get("window") != WINDOW:
        raise IndexFault(
            "the index was embedded in windows of another length: index the corpus again"
        )
    spec = EmbedderSpec(str(identity["embedder"]), bool(identity.get("own")), int(identity["dim"]))
    return _shared(spec, os.environ.get(BASE))


@cache
def _shared(spec: EmbedderSpec, base: str | None) -> Embedder:
    if spec.own and not base:
        raise EmbeddingFault(
            f"the index was embedded by {spec.name} on a server of its own: say where it is with "
            f"{BASE}=http://HOST/v1"
        )
    return Embedder(spec, _embed(spec.name, spec.own, base))


def _embed(name: str, own: bool, base: str | None) -> Embed:
    import dspy

    if _FUNCTION.fullmatch(name):
        return dspy.Embedder(_function(name), batch_size=BATCH, caching=False)  # type: ignore[no-any-return]
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    if "/" not in name:
        raise EmbeddingFault(
            f"--embedder {name!r} is neither PROVIDER/MODEL, such as "
            "openai/text-embedding-3-small, nor module:function"
        )
    given: dict[str, Any] = {"timeout": PATIENCE, "max_retries": 0}
    key = os.environ.get(KEY)
    if own:
        address = str(base).rstrip("/")
        if not address.startswith(("http://", "https://")):
            raise EmbeddingFault(f"{BASE} is no URL such as http://localhost:8000/v1: {address!r}")
        name = f"openai/{name.removeprefix('openai/')}"
        given |= {"api_base": address, "api_key": key or "none"}
    elif key:
        given["api_key"] = key
    return dspy.Embedder(name, batch_size=BATCH, caching=False, **given)  # type: ignore[no-any-return]


def _function(name: str) -> Embed:
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Embed = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as fault:
        raise EmbeddingFault(f"--embedder {name} can't be imported: {fault}") from fault
    return found


def _asked(
    embed: Embed,
    texts: list[str],
    name: str,
    sleep: Callable[[float], None],
    attempts: int = ATTEMPTS,
) -> Any:
    for attempt in range(attempts):
        try:
            return np.asarray(embed(texts), np.float32).reshape(len(texts), -1)
        except Exception as fault:
            if attempt == attempts - 1 or not _may_pass(fault):
                said = " ".join(str(fault).split())[:200]
                raise EmbeddingFault(
                    f"{name} gives no embeddings: {said}; {_mend(fault)}"
                ) from fault
        sleep(FIRST_WAIT * 2**attempt)
    raise AssertionError


def _may_pass(fault: Exception) -> bool:
    """By the names of LiteLLM's errors, so that it is imported by those alone who use it."""
    passing = {
        "APIConnectionError",
        "BadGatewayError",
        "InternalServerError",
        "RateLimitError",
        "ServiceUnavailableError",
        "Timeout",
    }
    if any(words in str(fault) for words in ("insufficient_quota", "Missing credentials")):
        return False
    return any(kind.__name__ in passing for kind in type(fault).__mro__)


def _mend(fault: Exception) -> str:
    kinds = {kind.__name__ for kind in type(fault).__mro__}
    if "AuthenticationError" in kinds or "Missing credentials" in str(fault):
        return f"set the provider's key variable, or {KEY}"
    if kinds & {"NotFoundError", "BadRequestError"}:
        return f"correct --embedder, or {BASE}, which mostly ends in /v1"
    if "APIConnectionError" in kinds or "Connection error" in str(fault):
        return f"start the server, or correct {BASE}"
    return "try again later: what was embedded is kept"


def text_windows(text: str) -> list[str]:
    starts = [m.span() for m in _WORD.finditer(text)]
    if len(starts) <= WINDOW:
        return [text[: WINDOW * 40]]
    step = int(WINDOW * (1 - WINDOW_OVERLAP))
    begins = range(0, len(starts) - int(WINDOW * WINDOW_OVERLAP), step)
    return [
        text[starts[b][0] : starts[min(b + WINDOW, len(starts)) - 1][1]][: WINDOW * 40]
        for b in begins
    ]
