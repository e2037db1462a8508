"""Hopsmith: multi-hop question answering over your own documents, compiled rather than
hand-prompted. This room is the face: command line, settings, LM set-up, loading."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from hopsmith.loading import load

        return load
    raise AttributeError(name)
