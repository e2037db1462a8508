"""A real browser for the tests of pages, and an LM endpoint that can fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hopsmith.faulty_lm import FaultyLM

CHROMIUM = os.environ.get("HOPSMITH_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Headless; tests are skipped where it isn't."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium here (apt install chromium, or HOPSMITH_CHROMIUM=PATH)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def faulty() -> Iterator[FaultyLM]:
    lm = FaultyLM()
    try:
        yield lm
    finally:
        lm.release.set()
        lm.down()
