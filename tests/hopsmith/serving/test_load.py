"""Under load: a limit, a short queue, 429; deadlines, clients that hang up, an orderly stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from hopsmith.serving.limits import Admission, Limits


class Gate:
    """A script that stands still at the calls that ``holds`` picks, until it is opened."""

    def __init__(self, holds: Callable[[Any, Mapping[str, Any]], bool]) -> None:
        self.holds = holds
        self.arrived = threading.Semaphore(0)
        self.open = threading.Event()
        self.calls: list[str] = []

    def __call__(self, signature: Any, inputs: Mapping[str, Any]) -> Any:
        self.calls.append(",".join(signature.output_fields))
        if self.holds(signature, inputs):
            self.arrived.release()
            assert self.open.wait(20)
        if "sub_questions" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": ["Who founded it?", "Where is {answer_1}?"]}
        return {"answer": "Ada Quill" if "founded" in inputs["question"] else "Tamsin"}

    def wait(self, n: int = 1) -> None:
        for _ in range(n):
            assert self.arrived.acquire(timeout=10)


def planning(signature: Any, inputs: Any) -> bool:
    return "sub_questions" in signature.output_fields


def second_hop(signature: Any, inputs: Any) -> bool:
    return "Where is Ada" in inputs.get("question", "")


@pytest.fixture
def at_once() -> Any:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def until(true: Callable[[], bool]) -> None:
    """Wait for what the server's loop is about to do."""
    pause = threading.Event()
    for _ in range(1000):
        if true():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")


def test_beyond_limit_and_queue_is_429_with_retry_after(serve: Any, at_once: Any) -> None:
    gate = Gate(planning)
    live = serve(gate, limits=Limits(concurrency=2, queue=1, queue_seconds=20))
    taken: list[Future[httpx.Response]] = [at_once.submit(live.ask) for _ in range(2)]
    gate.wait(2)
    waits = at_once.submit(live.ask)
    until(lambda: live.service.desk.admission.waiting == 1)
    refused = live.ask()
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["type"] == "urn:hopsmith:busy"
    assert live.client.get("/healthz").status_code == 200
    gate.open.set()
    assert [f.result().status_code for f in [*taken, waits]] == [200, 200, 200]
    assert live.ask().status_code == 200
    assert live.service.desk.admission.running == 0


def test_one_that_waits_too_long_for_its_turn_is_429(serve: Any, at_once: Any) -> None:
    gate = Gate(planning)
    live = serve(gate, limits=Limits(concurrency=1, queue=4, queue_seconds=0.05))
    first = at_once.submit(live.ask)
    gate.wait()
    assert live.ask().status_code == 429
    gate.open.set()
    assert first.result().status_code == 200


async def _turns() -> list[int]:
    import asyncio

    admission = Admission(Limits(concurrency=1, queue=3, queue_seconds=5))
    order: list[int] = []
    await admission.enter()

    async def one(i: int) -> None:
        await admission.enter()
        order.append(i)
        admission.leave(0.1)

    tasks = [asyncio.create_task(one(i)) for i in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    admission.leave(0.1)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (admission.running, admission.waiting) == (0, 0)
    return order


def test_turns_come_in_order_and_one_who_left_takes_none() -> None:
    import asyncio

    assert asyncio.run(_turns()) == [0, 2]


def test_waiting_is_bounded_by_a_share_of_what_a_question_takes() -> None:
    admission = Admission(Limits(concurrency=4))
    admission.running = 1
    admission.leave(10.0)
    assert admission.patience == pytest.approx(2.0)
    assert admission.retry_after == 3


def test_at_the_deadline_the_best_answer_so_far(serve: Any) -> None:
    gate = Gate(second_hop)
    live = serve(gate)
    told = live.ask(seconds=0.3).json()
    assert told["answer"] == "Ada Quill"
    assert told["stop_reason"] == "budget"
    assert [h["answer"] for h in told["hops"]] == ["Ada Quill", None]
    assert told["seconds"] < 2
    assert live.service.desk.admission.running == 1
    gate.open.set()
    until(lambda: live.service.desk.admission.running == 0)
    assert len(gate.calls) == 3


def test_no_answer_by_the_deadline_is_504_with_the_hops(serve: Any) -> None:
    gate = Gate(lambda signature, inputs: "answer" in signature.output_fields)
    reply = serve(gate).ask(seconds=0.3)
    gate.open.set()
    assert reply.status_code == 504
    assert reply.json()["type"] == "urn:hopsmith:deadline"
    assert [h["status"] for h in reply.json()["hops"]] == ["unresolved"]


def test_the_servers_own_limit_holds_for_all(serve: Any) -> None:
    gate = Gate(second_hop)
    told = serve(gate, limits=Limits(seconds=0.3)).ask(seconds=1000).json()
    gate.open.set()
    assert told["stop_reason"] == "budget"


def test_a_client_that_hangs_up_ends_its_question_at_the_next_call(serve: Any) -> None:
    gate = Gate(planning)
    live = serve(gate)
    with httpx.Client(base_url=live.url, verify=False) as client, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.post, "/v1/answer", json={"question": "Who?"}, timeout=0.5)
        gate.wait()
        (asked,) = live.service.desk.under_way
        assert isinstance(asking.exception(), httpx.ReadTimeout)
    assert asked.cancel.wait(10)
    gate.open.set()
    until(lambda: live.service.desk.admission.running == 0)
    assert gate.calls == ["kind,sub_questions"]
    assert 'reason="cancelled"' in live.client.get("/metrics").text


def test_a_stop_finishes_what_is_under_way(serve: Any, at_once: Any) -> None:
    gate = Gate(planning)
    live = serve(gate)
    asking = at_once.submit(live.ask)
    gate.wait()
    live.stop()
    until(lambda: not live.answers())
    gate.open.set()
    assert asking.result().json()["answer"] == "Tamsin"


def test_nothing_of_a_question_is_kept_after_its_answer(serve: Any) -> None:
    import dspy

    seen: list[Any] = []

    def script(signature: Any, inputs: Any) -> dict[str, Any]:
        seen.append(dspy.settings.trace)
        return {"answer": "Tamsin"}

    live = serve(script, methods={"main": "single_shot"})
    live.ask()
    assert seen == [None]
    until(lambda: not live.service.desk.under_way)
