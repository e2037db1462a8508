"""What a machine has and lacks for Hopsmith: each finding is fine, or names the mend.

Nothing waits long: what can't be reached is a finding. Only the cache folder is written to, with
the default encoder, where it isn't there yet.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from hopsmith.errors import HopsmithError
from hopsmith.settings import Settings
from retrieval import RetrievalError
from retrieval.folders import cache_folder

State = Literal["ok", "note", "broken"]
PATIENCE = 3.0
"""Seconds to wait for a hub or an endpoint."""
TIGHT, FULL = 5e9, 5e8
"""Free bytes below which space is short, or gone: weights and their copy take 2.3 GB."""
HUB = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: State
    """``note``: usable, but something optional is missing. ``broken``: it must be mended first."""
    says: str


def diagnose(settings: Settings) -> Iterator[Finding]:
    """Every check in turn, each as it is done. A check that itself fails is a finding."""
    for check in CHECKS:
        try:
            yield from check(settings)
        except Exception as fault:
            said = " ".join(str(fault).split())[:200]
            yield Finding(
                check.__name__, "broken", f"could not be checked: {type(fault).__name__}: {said}"
            )


def packages(_: Settings) -> Iterator[Finding]:
    """Python and the packages that Hopsmith declares, at versions it takes."""
    faults = _unmet(None)
    python = f"Python {sys.version.split()[0]}"
    if faults:
        yield Finding(
            "packages", "broken", f"{python}; {', '.join(faults)}: pip install --upgrade hopsmith"
        )
    else:
        yield Finding(
            "packages", "ok", f"{python}, hopsmith {installed_version()} with all it needs"
        )


def extras(_: Settings) -> Iterator[Finding]:
    """The optional parts, as the package declares them."""
    try:
        names = metadata.metadata("hopsmith").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return
    for name in sorted(set(names) - {"dev"}):
        faults = _unmet(name)
        if faults:
            more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
            says = f'{faults[0]}{more}: pip install "hopsmith[{name}]" brings it, if you want it'
            yield Finding(f"extra {name}", "note", says)
        else:
            yield Finding(f"extra {name}", "ok", "installed")


def compiler(_: Settings) -> Iterator[Finding]:
    """What PLAID's scorers are compiled with, as it looks for it itself."""
    from retrieval.compiled import check_compiler

    try:
        check_compiler()
    except RetrievalError as fault:
        yield Finding("compiler", "note", str(fault))
    else:
        yield Finding("compiler", "ok", "all that the engine plaid compiles with is there")


def cache(_: Settings) -> Iterator[Finding]:
    """The cache folder can be written, and nobody holds its locks."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".doctor-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as fault:
        says = f"{folder} can't be written ({fault.strerror}): set HOPSMITH_CACHE to one that can"
        yield Finding("cache", "broken", says)
        return
    yield Finding("cache", "ok", f"{folder} ({_size(folder)})")
    busy = [lock for lock in folder.glob("*/.lock") if _held(lock)]
    if busy:
        says = f"another process works in {busy[0].parent}: wait for it, or end it"
        yield Finding("cache locks", "note", says)
    else:
        yield Finding("cache locks", "ok", "free")


def disk(_: Settings) -> Iterator[Finding]:
    """Space where things are cached and where the command runs."""
    for name, folder in (("cache", cache_folder()), ("working folder", Path.cwd())):
        there = next(p for p in (folder, *folder.parents) if p.exists())
        free = shutil.disk_usage(there).free
        state: State = "broken" if free < FULL else "note" if free < TIGHT else "ok"
        mend = "" if state == "ok" else ": make room, or set HOPSMITH_CACHE to another disk"
        yield Finding(f"disk of {name}", state, f"{free / 1e9:.1f} GB free{mend}")


def encoder(_: Settings) -> Iterator[Finding]:
    """The default checkpoint, its weights by their hash."""
    from retrieval.checkpoint import checkpoint

    try:
        spec = checkpoint()
    except RetrievalError as fault:
        yield Finding("encoder", "broken", str(fault))
        return
    says = f"{spec.name}, {spec.dim} dimensions, weights {spec.weights[:12]}"
    yield Finding("encoder", "ok", says)


def local_lm(settings: Settings) -> Iterator[Finding]:
    """The engine and the weights of ``--lm local``; needed when that is the LM set."""
    from importlib.util import find_spec

    from hopsmith.weights import QWEN, sha256_of

    wanted: State = "broken" if settings.lm == "local" else "note"
    mend = 'pip install "hopsmith[local]", or name another LM with --lm or HOPSMITH_LM'
    if find_spec("xllamacpp") is None:
        yield Finding("local LM", wanted, f"its engine (xllamacpp) is not installed: {mend}")
        return
    folder = cache_folder() / "models"
    path = settings.lm_file or folder / f"{QWEN.title}.gguf"
    if settings.lm_file is not None:
        there = path.is_file()
        says = f"{path} is there" if there else f"--lm-file {path} is not there: name one that is"
        yield Finding("local LM", "ok" if there else wanted, says)
    elif path.is_file():
        digest = sha256_of(path, folder)
        if digest == QWEN.sha256:
            yield Finding("local LM", "ok", f"{QWEN.title}, weights {digest[:12]}")
        else:
            says = f"{path} has SHA-256 {digest[:12]}…, not {QWEN.sha256[:12]}…: remove it"
            yield Finding("local LM", wanted, says)
    else:
        parts = [n for n in range(1, QWEN.parts + 1) if find_spec(f"{QWEN.package}{n}") is None]
        if parts:
            says = f"{len(parts)} of the {QWEN.parts} packages of its weights are missing: {mend}"
            yield Finding("local LM", wanted, says)
        else:
            yield Finding("local LM", "ok", "all packages are there; put together at first use")


def endpoint(settings: Settings) -> Iterator[Finding]:
    """The LM that is set, when it is not the local one: its key and its endpoint."""
    from hopsmith.lm import make_lm

    names = {"LM": settings.lm, **{f"LM of {r}": n for r, n in settings.role_lm.items()}}
    for what, name in names.items():
        if name in ("local", "oracle"):
            continue
        try:
            make_lm(settings, name)
        except HopsmithError as fault:
            yield Finding(what, "broken", str(fault))
            continue
        _, at, address = name.partition("@http")
        base = f"http{address}" if at else settings.api_base
        if base is None:
            yield Finding(what, "ok", f"{name}: set up (not asked: that may cost money)")
            continue
        key = settings.api_key.get_secret_value() if settings.api_key else None
        why = _unreachable(f"{base.rstrip('/')}/models", key)
        says = f"{name} at {base}"
        if why is None:
            yield Finding(what, "ok", f"{says} answers")
        else:
            yield Finding(what, "broken", f"{says}: {why}; correct --api-base, or start it")


def hub(_: Settings) -> Iterator[Finding]:
    """Whether checkpoints and data sets could be fetched."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        says = "not tried, since HF_HUB_OFFLINE is set: what comes as packages works"
        yield Finding("hub", "note", says)
        return
    place = os.environ.get("HF_ENDPOINT", HUB)
    fault = _unreachable(place)
    if fault:
        says = (
            f"{place} can't be reached ({fault}): what comes as packages works; name folders for "
            "other checkpoints, and set HF_HUB_OFFLINE=1 so that nothing waits for it"
        )
        yield Finding("hub", "note", says)
    else:
        yield Finding("hub", "ok", f"{place} answers")


def index(settings: Settings) -> Iterator[Finding]:
    """The index that is set (``--index``, ``HOPSMITH_INDEX``): here or at its server."""
    from retrieval import open_retriever
    from retrieval.contract import size_of

    if settings.index is None or settings.retriever is not None:
        return
    try:
        retriever = open_retriever(settings.index)
        found = retriever.search(["anything at all"], 1)
    except RetrievalError as fault:
        yield Finding("index", "broken", str(fault))
        return
    says = f"{settings.index}: {retriever.identity['engine']}, {size_of(retriever)} passages"
    if found[0]:
        yield Finding("index", "ok", says)
    else:
        yield Finding("index", "broken", f"{says}, but a search finds none: index the corpus again")


CHECKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    packages,
    extras,
    compiler,
    cache,
    disk,
    encoder,
    local_lm,
    endpoint,
    hub,
    index,
)


def _unmet(extra: str | None) -> list[str]:
    """Requirements of the package, or of an extra of it, that what is installed does not meet."""
    from packaging.requirements import Requirement

    try:
        declared = [Requirement(line) for line in metadata.requires("hopsmith") or []]
    except metadata.PackageNotFoundError:
        return []
    out = []
    for wanted in declared:
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra or ""}):
            continue
        if extra is not None and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            continue
        try:
            version = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            out.append(f"{wanted.name} is missing")
            continue
        if not wanted.specifier.contains(version, prereleases=True):
            out.append(f"{wanted.name} {version} is not {wanted.specifier}")
    return out


def installed_version() -> str:
    try:
        return metadata.version("hopsmith")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _unreachable(url: str, key: str | None = None) -> str | None:
    """Why an address doesn't answer; None when it does."""
    import httpx

    try:
        reply = httpx.get(
            url, timeout=PATIENCE, headers={"Authorization": f"Bearer {key}"} if key else {}
        )
    except httpx.TimeoutException:
        return f"no answer within {PATIENCE:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
        return " ".join(str(fault).split()) or type(fault).__name__
    return None if reply.status_code < 400 else f"status {reply.status_code}"


def _held(lock: Path) -> bool:
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def _size(folder: Path) -> str:
    total = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    return f"{total / 1e9:.1f} GB"
