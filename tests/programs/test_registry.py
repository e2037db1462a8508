"""Methods by name: a plug-in is loaded when it is asked for, and a bad one stops nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from programs import ProgramError, build, method, methods, registry

MODULE = '''
from programs import MultiHopProgram
from programs.single_shot import SingleShot

class Sound(SingleShot):
    """A method."""

class Rooms:
    Inner = Sound

class Bare(MultiHopProgram):
    """A method without an info."""

number = 3
'''
Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Install]:
    """``install(name="module:attribute", …)`` makes these the plug-ins there are."""
    (tmp_path / "own_methods.py").write_text(MODULE)
    (tmp_path / "ends_python.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)

    def forget() -> None:
        registry._points.cache_clear()
        registry._loaded.cache_clear()

    def make(*more: tuple[str, str], **plug_ins: str) -> None:
        points = [
            EntryPoint(name, value, registry.ENTRY_POINTS)
            for name, value in (*plug_ins.items(), *more)
        ]
        monkeypatch.setattr(registry, "entry_points", lambda group: points)
        forget()

    yield make
    sys.modules.pop("own_methods", None)
    forget()


@pytest.mark.parametrize(
    "value", ["own_methods:Sound", "own_methods:Sound [extra]", "own_methods:Rooms.Inner"]
)
def test_an_entry_point_may_have_any_standard_form(
    value: str, install: Install, words: Any
) -> None:
    install(mine=value)
    assert list(methods())[-1] == "mine"
    assert type(build("mine", words)).__name__ == "Sound"
    assert registry.unloadable() == ()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module:Method", "can't be loaded .ModuleNotFoundError: No module named"),
        ("own_methods:Nobody", "can't be loaded .AttributeError: "),
        ("ends_python:Method", "can't be loaded .SystemExit: 3"),
        ("own_methods:number", "is not a MultiHopProgram class"),
        ("own_methods:Bare", "lacks its info: give the class"),
    ],
)
def test_a_bad_plug_in_is_named_with_the_mend_and_stops_nothing_else(
    value: str, why: str, install: Install, words: Any
) -> None:
    install(mine=value, sound="own_methods:Sound")
    assert method("decompose").info.name == "decompose"
    assert {*registry.OURS, "sound"} == set(methods())
    (told,) = registry.unloadable()
    assert told.startswith(f"method mine of an unnamed package ({value}) ")
    with pytest.raises(ProgramError, match=why):
        build("mine", words)


def test_only_the_method_that_is_asked_for_is_loaded(install: Install) -> None:
    install(mine="own_methods:Sound")
    method("decompose")
    with pytest.raises(ProgramError, match=r"no method 'magic'; there are .*, mine, "):
        method("magic")
    assert "own_methods" not in sys.modules
    method("mine")
    assert "own_methods" in sys.modules


def test_a_name_that_is_taken_is_told(install: Install) -> None:
    install(
        ("mine", "own_methods:Sound"), ("mine", "own_methods:Rooms"), direct="own_methods:Sound"
    )
    assert method("direct").__name__ == "Direct"
    assert set(methods()) == set(registry.OURS)
    first, second = registry.unloadable()
    assert "method direct of an unnamed package (own_methods:Sound) has the name of one" in first
    assert "uninstall all but one" in second
