"""Where things that are made once are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``HOPSMITH_CACHE``, or the user's cache folder."""
    named = os.environ.get("HOPSMITH_CACHE")
    if named:
        return Path(named).expanduser().resolve()
    import platformdirs

    return Path(platformdirs.user_cache_dir("hopsmith"))
