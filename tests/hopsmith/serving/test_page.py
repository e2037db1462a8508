"""The page in a real browser: ask, watch, stop, compare, fail, and a phone's width."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopsmith.serving.journal import Journal
from hopsmith.serving.limits import Limits
from hopsmith.serving.page import FILE, page
from retrieval import Passage

SHOTS = os.environ.get("HOPSMITH_SHOTS")
"""A folder to write screenshots into, for looking at them."""


def test_the_page_asks_nobody_else_and_runs_only_its_own_script() -> None:
    html, headers = page()
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
    assert "http://" not in html
    assert "https://" not in html
    assert " style=" not in html
    assert " onclick" not in html
    assert FILE.is_file()


def test_it_is_served_with_its_policy(serve: Any) -> None:
    reply = serve().client.get("/")
    assert reply.status_code == 200
    assert reply.headers["content-security-policy"].count("sha256-") == 2
    assert "<h1>Hopsmith</h1>" in reply.text


@pytest.fixture
def visit(chromium: Any) -> Iterator[Any]:
    """``visit(live, …)`` opens the page; a fault in its script fails the test."""
    faults: list[str] = []
    contexts = []

    def open_page(live: Any, width: int = 1200, **more: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 900}, **more)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(15_000)
        tab.on("pageerror", lambda fault: faults.append(str(fault)))
        tab.on(
            "request",
            lambda r: None if r.url.startswith((live.url, "data:")) else faults.append(r.url),
        )
        tab.goto(live.url)
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def shot(tab: Any, name: str) -> None:
    if SHOTS:
        tab.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


def ask(tab: Any, question: str = "Where was its founder born?") -> None:
    tab.wait_for_selector("#first option", state="attached")
    tab.fill("#question", question)
    tab.press("#question", "Enter")


class Slow:
    """Two hops; the second waits until ``gate`` is set."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.calls = 0

    def __call__(self, signature: Any, inputs: Any) -> Any:
        self.calls += 1
        if "sub_questions" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": ["Who founded it?", "Where is {answer_1}?"]}
        if "founded" in inputs["question"]:
            return {"answer": "Ada Quill"}
        assert self.gate.wait(20)
        return {"answer": "Tamsin"}


@pytest.mark.slow
def test_hops_unfold_while_it_works_and_end_in_an_answer(serve: Any, visit: Any) -> None:
    script = Slow()
    tab = visit(serve(script))
    ask(tab)
    tab.wait_for_selector(".hop >> text=Where is Ada Quill?")
    assert tab.locator(".run").get_attribute("aria-busy") == "true"
    assert tab.locator(".found").all_inner_texts() == ["→ Ada Quill"]
    assert "asked as: Where is {answer_1}?" in tab.locator(".tree").inner_text()
    shot(tab, "working")
    script.gate.set()
    tab.wait_for_selector(".answer:visible")
    assert tab.locator(".answer").inner_text() == "Tamsin"
    assert tab.locator(".found").all_inner_texts() == ["→ Ada Quill", "→ Tamsin"]
    assert "answered" in tab.locator(".status").inner_text()
    assert "2 hops" in tab.locator(".status").inner_text()
    nested = tab.locator(".tree > li > ul > li .hop > summary")
    assert "Where is Ada Quill?" in nested.inner_text()
    assert tab.is_disabled("#stop")


@pytest.mark.slow
def test_matched_words_are_marked_in_passages(serve: Any, words: Any, visit: Any) -> None:
    retriever = type(words)([Passage("p", "Norvale", "Ada Quill founded Norvale in 1911.")])
    tab = visit(serve(retriever=retriever, methods={"main": "single_shot"}))
    ask(tab, "Who founded Norvale?")
    tab.wait_for_selector(".answer:visible")
    tab.locator(".passage summary").first.click()
    assert tab.locator(".passage p mark.asked").all_inner_texts() == ["founded", "Norvale"]
    assert tab.locator(".passage p mark.found").all_inner_texts() == ["Ada", "Quill"]
    shot(tab, "passage")


@pytest.mark.slow
def test_stop_ends_it_on_the_server_too(serve: Any, visit: Any) -> None:
    script = Slow()
    live = serve(script)
    tab = visit(live)
    ask(tab)
    tab.wait_for_selector(".hop >> text=Where is Ada Quill?")
    (asked,) = live.service.desk.under_way
    tab.click("#stop")
    tab.wait_for_selector(".status >> text=Stopped")
    assert asked.cancel.wait(10)
    assert tab.locator(".found").count() == 1
    assert tab.is_enabled("#go")
    script.gate.set()


@pytest.mark.slow
def test_escape_stops_as_well(serve: Any, visit: Any) -> None:
    script = Slow()
    live = serve(script)
    tab = visit(live)
    ask(tab)
    tab.wait_for_selector(".hop >> text=Where is Ada Quill?")
    (asked,) = live.service.desk.under_way
    tab.press("body", "Escape")
    tab.wait_for_selector(".status >> text=Stopped")
    assert asked.cancel.wait(10)
    assert tab.is_enabled("#go")
    script.gate.set()


@pytest.mark.slow
def test_a_failure_is_an_alert_with_title_and_detail(serve: Any, visit: Any) -> None:
    tab = visit(serve(lambda *_: None, methods={"main": "single_shot"}))
    ask(tab)
    alert = tab.locator(".run .problem[role=alert]")
    alert.wait_for(state="visible")
    assert "The LM's replies could not be used" in alert.inner_text()
    assert tab.locator(".status").inner_text() == "Failed"
    assert tab.is_enabled("#go")
    shot(tab, "failure")


@pytest.mark.slow
def test_a_busy_server_is_asked_again_by_itself(serve: Any, visit: Any) -> None:
    live = serve(limits=Limits(concurrency=1, queue=0))
    live.service.desk.admission.running = 1
    tab = visit(live)
    ask(tab)
    tab.wait_for_selector(".status >> text=busy")
    assert tab.locator(".hop").count() == 0
    live.service.desk.admission.running = 0
    tab.wait_for_selector(".answer:visible")
    assert "Tamsin" in tab.locator(".answer:visible").inner_text()


@pytest.mark.slow
def test_two_pipelines_side_by_side(serve: Any, visit: Any) -> None:
    tab = visit(serve(methods={"main": "decompose", "plain": "single_shot"}))
    tab.wait_for_selector("#second option", state="attached")
    tab.select_option("#second", "plain")
    ask(tab)
    tab.locator(".answer:visible").nth(1).wait_for()
    boxes = [tab.locator(".run").nth(i).bounding_box() for i in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    assert tab.locator(".run").nth(1).locator(".hop").count() == 1
    shot(tab, "compare")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(serve: Any, visit: Any, scheme: str) -> None:
    live = serve(methods={"main": "decompose", "plain": "single_shot"})
    tab = visit(live, 400, color_scheme=scheme, is_mobile=True, has_touch=True)
    tab.wait_for_selector("#second option", state="attached")
    tab.select_option("#second", "plain")
    ask(tab, "Where was the founder of " + "a-very-long-name" * 10 + " born?")
    tab.locator(".answer:visible").nth(1).wait_for()
    tab.locator(".passage summary").first.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    tops = [tab.locator(".run").nth(i).bounding_box()["y"] for i in (0, 1)]
    assert tops[1] > tops[0]
    for button in tab.locator("button:visible").all():
        assert button.bounding_box()["height"] >= 40
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(n) for n in ground[4:-1].split(",")) > 384
    assert light is (scheme == "light")
    shot(tab, f"phone-{scheme}")


@pytest.mark.slow
def test_everything_is_reached_and_named_without_a_mouse(serve: Any, visit: Any) -> None:
    tab = visit(serve())
    ask(tab)
    tab.wait_for_selector(".answer:visible")
    tab.focus("#question")
    seen = []
    for _ in range(12):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate("(document.activeElement.id || document.activeElement.tagName)"))
    assert seen[:2] == ["first", "go"]
    assert "SUMMARY" in seen
    tab.locator(".passage summary").first.focus()
    tab.keyboard.press("Enter")
    assert tab.locator(".passage").first.get_attribute("open") is not None
    unnamed = tab.evaluate(
        "[...document.querySelectorAll('textarea,select,input')].filter(e => !e.labels.length)"
        ".map(e => e.id)"
    )
    assert unnamed == []
    assert tab.locator("[role=status]").count() == 1
    assert tab.locator("main h1").count() == 1


@pytest.mark.slow
def test_text_of_the_corpus_never_becomes_markup(serve: Any, words: Any, visit: Any) -> None:
    pwn = "document.title='pwned'"
    wild = f'founder <img src=x onerror="{pwn}"><script>{pwn}</script>'
    retriever = type(words)([Passage("p", wild, wild)])
    script = lambda *_: {"answer": wild}  # noqa: E731
    tab = visit(serve(script, retriever=retriever, methods={"main": "single_shot"}))
    ask(tab, wild)
    tab.wait_for_selector(".answer:visible")
    tab.locator(".passage summary").first.click()
    assert tab.title() == "Hopsmith"
    assert tab.locator(".run img, .run script").count() == 0
    assert wild in tab.locator(".answer").inner_text()


@pytest.mark.slow
def test_json_is_copied_and_thumbs_are_kept(serve: Any, visit: Any, journal_folder: Path) -> None:
    live = serve(journal=Journal(journal_folder))
    tab = visit(live, permissions=["clipboard-read", "clipboard-write"])
    ask(tab)
    tab.wait_for_selector(".answer:visible")
    tab.click("text=Copy JSON")
    tab.wait_for_selector("text=Copied")
    copied = json.loads(tab.evaluate("navigator.clipboard.readText()"))
    assert copied["answer"] == "Tamsin"
    tab.click("button:has-text('Wrong')")
    tab.wait_for_selector("button[aria-pressed=true]:has-text('Wrong')")
    (file,) = journal_folder.glob("feedback-*.jsonl")
    (line,) = file.read_text().splitlines()
    assert (json.loads(line)["id"], json.loads(line)["thumb"]) == (copied["id"], "down")


@pytest.mark.slow
def test_a_token_is_asked_for_and_kept_for_the_tab(serve: Any, visit: Any) -> None:
    tab = visit(serve(token="secret"))
    tab.wait_for_selector("#token:visible")
    tab.fill("#question", "Who?")
    tab.fill("#token", "secret")
    tab.click("#go")
    tab.wait_for_selector(".answer:visible")
    tab.reload()
    tab.wait_for_selector("#first option", state="attached")
    assert tab.evaluate("localStorage.length") == 0
