"""The page at ``/``: one file without build step, and headers that let it do nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).with_name("page.html")


@lru_cache(maxsize=1)
def page() -> tuple[str, dict[str, str]]:
    """The page, and headers under which only its own script and style run and only this server is
    asked."""
    html = FILE.read_text(encoding="utf-8")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {hashes(html, 'script')}",
            f"style-src {hashes(html, 'style')}",
            "connect-src 'self'",
            "img-src data:",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    )
    return html, {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def hashes(html: str, tag: str) -> str:
    """Of the page's inline elements of this kind, as a policy names them."""
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = (hashlib.sha256(text.encode()).digest() for text in found)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
