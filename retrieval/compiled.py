"""colbert-ai's C++ scorers, which only PLAID needs: compiled once a machine, by torch, into the
cache folder.

torch guards each compile with a lock file that a killed process leaves behind, and waits for it for
ever. Here nobody but us compiles into the folder, and a lock that the system frees when its holder
dies is taken first: a lock file that is found under it is stale, and removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from retrieval.encoder import kept_start_method
from retrieval.errors import IndexFault
from retrieval.folders import cache_folder

EXTENSIONS = (
    "segmented_maxsim_cpp",
    "segmented_lookup_cpp",
    "filter_pids_cpp",
    "decompress_residuals_cpp",
)
LOCK = ".hopsmith.lock"

_once = threading.Lock()
_done = False


def compiled_scorers() -> None:
    """Load the scorers into colbert-ai's classes; compile them when this machine has not yet.

    Says so on stderr before it compiles (about a minute each). Raises ``IndexFault`` naming the
    mend when something to compile with is missing, or the compiler fails.
    """
    global _done
    with _once:
        if not _done:
            check_compiler()
            _load()
            _done = True


def check_compiler() -> None:
    """Raise ``IndexFault`` with a one-line mend unless a C++ compiler, ninja and Python's headers
    are here. torch asks for ninja even when all is compiled."""
    lacking = []
    if shutil.which(os.environ.get("CXX", "c++").split()[0]) is None:
        lacking.append("a C++ compiler (g++)")
    if _ninja() is None:
        lacking.append("ninja")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        lacking.append("Python's headers (python3-dev)")
    if lacking:
        raise IndexFault(
            f"--engine plaid compiles colbert-ai's scorers and lacks {' and '.join(lacking)}: "
            "apt install g++ ninja-build python3-dev (ninja also: pip install "
            "'hopsmith[plaid]'), or use --engine two-stage, which needs no compiler"
        )


def extensions_folder() -> Path:
    """One for each torch and Python: what was compiled for another can't be loaded."""
    import torch

    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return cache_folder() / "torch_extensions" / f"{python}-torch{torch.__version__}"


def _ninja() -> str | None:
    """On PATH, or beside this interpreter, where a virtual environment that is not activated keeps
    it."""
    return shutil.which("ninja") or shutil.which("ninja", path=str(Path(sys.executable).parent))


def _load() -> None:
    folder = extensions_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder), _torch_compiles_into(folder):
        for name in EXTENSIONS:
            (folder / name / "lock").unlink(missing_ok=True)
        if any(not list((folder / name).glob("*.so")) for name in EXTENSIONS):
            print(
                "compiling colbert-ai's scorers for PLAID, once on this machine (minutes) …",
                file=sys.stderr,
            )
        try:
            with kept_start_method(), redirect_stdout(sys.stderr):
                from colbert.modeling.colbert import ColBERT
                from colbert.search.index_storage import IndexScorer
                from colbert.search.strided_tensor import StridedTensor

                for scorer in (ColBERT, StridedTensor, IndexScorer):
                    scorer.try_load_torch_extensions(use_gpu=False)
        except (RuntimeError, ImportError, OSError, subprocess.SubprocessError) as fault:
            raise IndexFault(
                f"colbert-ai's scorers don't compile ({_first_error(fault)}): mend the compiler, "
                "or use --engine two-stage, which needs none"
            ) from fault


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    import filelock

    lock = filelock.FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        print("another process is compiling colbert-ai's scorers, waiting …", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _torch_compiles_into(folder: Path) -> Iterator[None]:
    """torch and ninja read both from the environment."""
    before = {name: os.environ.get(name) for name in ("TORCH_EXTENSIONS_DIR", "PATH")}
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)
    ninja = _ninja()
    if ninja is not None and shutil.which("ninja") is None:
        os.environ["PATH"] = f"{Path(ninja).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _first_error(fault: BaseException) -> str:
    """The compiler's first error, or the fault's first line."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    return next((line for line in lines if " error: " in line), lines[0] if lines else "no word")
