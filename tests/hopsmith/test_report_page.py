"""Reports in a real browser: filter to a wrong answer, find its broken hop, on any screen."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hopsmith.compare_html import write_compare_html
from hopsmith.report import write_report
from optimize.compare import compare_runs
from tests.optimize.saved_runs import answered, question, saved

pytestmark = pytest.mark.slow
SHOTS = os.environ.get("HOPSMITH_SHOTS")
"""A folder to write screenshots into, for looking at them."""
QUESTIONS = [question(n, hops=1 + n % 3, kind=("single", "bridge")[n % 2]) for n in range(250)]
Visit = Callable[..., Any]


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visit]:
    """Opens a file; a fault of its script or a request for anything else fails the test."""
    faults: list[str] = []
    contexts = []

    def open_page(path: Path, width: int = 1200, fragment: str = "", **more: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 900}, **more)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("pageerror", lambda fault: faults.append(str(fault)))
        tab.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        tab.on(
            "request",
            lambda r: (
                None if r.url.startswith(path.parent.parent.as_uri()) else faults.append(r.url)
            ),
        )
        tab.goto(path.as_uri() + fragment)
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def shot(tab: Any, name: str) -> None:
    if SHOTS:
        tab.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


def report_of(folder: Path, right: int = 200, found: int = 1) -> Path:
    rows = [
        answered(q, n < right, found=3 if n < right else found) for n, q in enumerate(QUESTIONS)
    ]
    return write_report(saved(folder, QUESTIONS, rows))


def count(tab: Any) -> int:
    return int(tab.inner_text("#count").split()[0])


def test_filter_to_a_wrong_answer_and_find_its_broken_hop(tmp_path: Path, visit: Visit) -> None:
    tab = visit(report_of(tmp_path / "run"))
    assert count(tab) == 250
    assert tab.locator("#questions > li").count() == 100
    tab.click("#more")
    assert tab.locator("#questions > li").count() == 200
    tab.select_option("#verdict", "wrong")
    assert count(tab) == 50
    tab.select_option("#stage", "retrieval")
    tab.select_option("#hops", "3")
    first = tab.locator("#questions > li").first
    assert "retrieval, hop 2" in first.inner_text()
    first.locator("summary").first.click()
    broke = first.locator("ol.gold li.broke")
    broke.wait_for()
    assert broke.count() == 1
    assert re.search(r"never retrieved.*broke here", broke.inner_text(), re.S)
    passage = first.locator("details[data-passage] > summary", has_text="gold 1").first
    passage.click()
    text = first.locator("details[data-passage] p").first
    text.wait_for()
    assert text.inner_text().endswith("</script><b>")
    shot(tab, "report-wrong")


def test_search_order_and_address_are_kept(tmp_path: Path, visit: Visit) -> None:
    path = report_of(tmp_path / "run")
    tab = visit(path)
    tab.fill("#text", "gold 17")
    assert count(tab) == 13
    assert "text=gold" in tab.url
    again = visit(path, fragment="#verdict=wrong&kind=bridge")
    assert count(again) == 25
    linked = visit(path, fragment="#q=q199")
    linked.locator("details[data-id=q199][open] .body ol.gold").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_and_reads_on_any_screen(
    tmp_path: Path, visit: Visit, scheme: str, width: int
) -> None:
    tab = visit(report_of(tmp_path / "run"), width=width, color_scheme=scheme)
    tab.locator("#questions > li").first.locator("summary").first.click()
    tab.locator("ol.gold").first.wait_for()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground, ink = tab.evaluate(
        "[getComputedStyle(document.documentElement).backgroundColor,"
        " getComputedStyle(document.body).color]"
    )
    assert ink != ground
    shot(tab, f"report-{scheme}-{width}")


def test_a_comparison_shows_plots_and_leads_to_the_runs_own_reports(
    tmp_path: Path, visit: Visit
) -> None:
    runs = []
    for name, right in (("base", 100), ("better", 200)):
        rows = [answered(q, n < right, found=1 + n % 3) for n, q in enumerate(QUESTIONS)]
        runs.append(saved(tmp_path / name, QUESTIONS, rows))
        write_report(runs[-1])
    (tmp_path / "c").mkdir()
    tab = visit(write_compare_html(compare_runs(runs, resamples=300), tmp_path / "c"))
    assert tab.locator("figure svg").count() == 2
    tab.select_option("#right", "1")
    tab.select_option("#wrong", "0")
    assert count(tab) == 100
    shot(tab, "compare")
    row = tab.locator("#questions > li").first
    row.locator("summary").click()
    row.locator("a", has_text="better").click()
    tab.locator("details[data-id=q100][open] .body ol.gold").wait_for()


def test_thousands_of_questions_open_at_once(tmp_path: Path, visit: Visit) -> None:
    many = [question(n) for n in range(2000)]
    rows = [answered(q, n % 2 == 0) for n, q in enumerate(many)]
    tab = visit(write_report(saved(tmp_path / "run", many, rows)))
    assert count(tab) == 2000
    assert tab.locator("#questions > li").count() == 100
    tab.select_option("#verdict", "right")
    assert count(tab) == 1000
