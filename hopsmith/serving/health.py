"""Whether a server can answer: is the index open, does the LM answer?"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException
from typing import Any

AGE = 5.0
"""Seconds for which an answer about an endpoint holds."""
PATIENCE = 3.0
PAUSE = 15.0
"""Seconds after which an LM that failed, and that can't be asked without paying, is tried again."""


class LMHealth:
    """One LM, judged by the latest question's fate and, where it has an address, by asking its
    server for the list of models, which costs nothing."""

    def __init__(self, lm: Any) -> None:
        self.name = str(lm.model)
        endpoint = getattr(lm, "endpoint", None) or ""
        self.address = endpoint if "://" in endpoint else None
        self._key = lm.kwargs.get("api_key") or "none"
        self._lock = threading.Lock()
        self._failed: tuple[float, str] | None = None
        self._checked: tuple[float, str | None] = (float("-inf"), None)

    def failed(self, why: str) -> None:
        """A question failed since this LM does not answer."""
        self._failed = (time.monotonic(), why)

    def answered(self) -> None:
        self._failed = None

    def check(self) -> str | None:
        """What is wrong now, or None. May take ``PATIENCE`` seconds: not for the event loop."""
        if self.address is None:
            failed = self._failed
            return failed[1] if failed and time.monotonic() - failed[0] < PAUSE else None
        with self._lock:
            at, wrong = self._checked
            if time.monotonic() - at > AGE:
                wrong = self._ask()
                self._checked = (time.monotonic(), wrong)
            return wrong

    def _ask(self) -> str | None:
        request = urllib.request.Request(
            f"{self.address}/models", headers={"Authorization": f"Bearer {self._key}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                listed = json.load(reply)
        except urllib.error.HTTPError as fault:
            if fault.code in (404, 405):
                return None
            return f"its server says {fault.code}"
        except (OSError, HTTPException, ValueError) as fault:
            reason = getattr(fault, "reason", None) or fault
            return f"its server can't be reached ({type(reason).__name__})"
        return None if isinstance(listed, dict) else "its server talks no OpenAI-compatible API"


def lms_of(context: Any, role_lms: str) -> list[LMHealth]:
    """Each LM of a context once, by name and address."""
    every: Iterable[Any] = [context["lm"], *(context.get(role_lms) or {}).values()]
    found: dict[tuple[str, str | None], LMHealth] = {}
    for lm in every:
        health = LMHealth(lm)
        found.setdefault((health.name, health.address), health)
    return list(found.values())
