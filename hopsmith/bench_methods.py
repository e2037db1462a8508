"""bench methods: what a method's own machinery adds to the LM calls that it makes.

Every method answers one question with four gold hops in two chains that don't wait for each other,
by the oracle in place of an LM and with a perfect search, so that all that is measured is ours.
Runs are interleaved, numbers are medians.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import dspy
from dspy.adapters.base import Adapter

from benchmarks import Question, synthetic
from benchmarks.lookup import LookupRetriever
from benchmarks.oracle import ANSWERERS, OracleAdapter
from benchmarks.scripted import stand_in
from hopsmith.knowledge import GraphPlace
from programs import MultiHopProgram, ProgramError, build, methods
from programs import method as method_of
from programs.scope import Meter, Scope, entering
from signatures import Answer
from signatures.roles import field_key
from signatures.walker import Edges

AT_ONCE = 64
"""Calls that the bare baselines make in one go."""
THREADS = 8
TOLD = 3
"""Characters from which on an output that stands in an input counts as read from it."""


@dataclass(frozen=True)
class Call:
    """One LM call: which step asked, when, with what, and what came of it."""

    step: object
    start: float
    end: float
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    def told(self, earlier: Call) -> bool:
        """Whether an output of an earlier call stands in this one's inputs, or an edge that it
        chose by its number."""
        shown = " ".join(_shown(value) for value in self.inputs.values())
        told = [*_texts(earlier.outputs.values()), *earlier.chosen()]
        return any(text in shown for text in told)

    def chosen(self) -> list[str]:
        """The edges shown that an output names by their numbers."""
        lines = [line for v in self.inputs.values() if isinstance(v, Edges) for line in v.lines]
        lists = [value for value in self.outputs.values() if isinstance(value, (list, tuple))]
        numbers = {n for value in lists for n in value if isinstance(n, int)}
        return [line for n, line in enumerate(lines, 1) if n in numbers]


def _shown(value: Any) -> str:
    return str(value.format()) if hasattr(value, "entries") else str(value)


def _texts(values: Any) -> list[str]:
    texts: list[str] = []
    for value in values:
        if isinstance(value, str) and len(value) >= TOLD:
            texts.append(value)
        elif isinstance(value, Mapping):
            texts += _texts(value.values())
        elif isinstance(value, (list, tuple)):
            texts += _texts(value)
    return texts


def critical_path(calls: Sequence[Call]) -> tuple[float, int]:
    """Seconds and number of the calls on the longest chain of dependent ones.

    A call waits for every call of another step that had ended when it began, and of those of its
    own step for those that told it something: two sub-questions that don't refer to each other are
    independent, whether they were asked at once or not.
    """
    longest: list[tuple[float, int]] = []
    ordered = sorted(calls, key=lambda call: call.start)
    for n, call in enumerate(ordered):
        before = [
            longest[m]
            for m, earlier in enumerate(ordered[:n])
            if earlier.end <= call.start and (earlier.step != call.step or call.told(earlier))
        ]
        seconds, steps = max(before, default=(0.0, 0))
        longest.append((seconds + call.end - call.start, steps + 1))
    return max(longest, default=(0.0, 0))


class TimedOracle(Adapter):  # type: ignore[misc]
    """The oracle after ``latency`` seconds, its calls recorded; what it doesn't know it answers
    with a word."""

    def __init__(self, questions: Sequence[Question], latency: float) -> None:
        super().__init__()
        self.oracle = OracleAdapter(questions)
        self.latency = latency
        self.calls: list[Call] = []
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> TimedOracle:
        return self

    def __call__(
        self,
        lm: Any,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        start = time.perf_counter()
        if self.latency:
            time.sleep(self.latency)
        key = field_key(signature)
        if key in ANSWERERS:
            outputs = self.oracle(lm, lm_kwargs, signature, demos, inputs)
        else:
            outputs = [dict.fromkeys(signature.output_fields, "unknown")]
        call = Call(key, start, time.perf_counter(), inputs, outputs[0])
        with self._lock:
            self.calls.append(call)
        return outputs


@dataclass
class MethodTimes:
    """One method, medians over the repeats."""

    method: str
    lm_calls: int = 0
    steps: int = 0
    """Calls on the critical path."""
    critical_path: float = 0.0
    """Seconds."""
    wall: float = 0.0
    """Seconds."""
    ratio: float = 0.0
    """Wall time over critical path."""
    own_ms: float = 0.0
    """Our own milliseconds of CPU an LM call, with an LM that takes none."""
    times_predict: float = 0.0
    times_parallel: float = 0.0


@dataclass
class MethodsReport:
    """What ``hopsmith bench methods`` says."""

    latency: float
    repeats: int
    predict_ms: float = 0.0
    """A bare dspy.Predict, a call."""
    parallel_ms: float = 0.0
    """dspy.Parallel over bare Predicts, a call."""
    methods: list[MethodTimes] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_methods(
    names: Sequence[str] = (),
    latency: float = 0.2,
    repeats: int = 3,
    say: Callable[[str], None] = lambda line: None,
) -> MethodsReport:
    """Measure the methods named, or all; those that walk a graph walk the facts of the world.

    Raises ``ProgramError`` for a name that isn't there.
    """
    for name in names:
        method_of(name)
    world = synthetic(40, 200, seed=0, kinds=("bridge_comparison",))
    question = world.questions["dev"][0]
    report = MethodsReport(latency, repeats)
    programs: dict[str, MultiHopProgram] = {}
    graph = GraphPlace(benchmark=world)
    for name in names or methods():
        retriever = LookupRetriever(question, world.corpus)
        try:
            known = graph.for_method(name, retriever)
            programs[name] = build(name, retriever, knowledge=known)
        except ProgramError as fault:
            report.left_out[name] = str(fault)
    slow, fast = TimedOracle([question], latency), TimedOracle([question], 0.0)
    for program in programs.values():
        _ask(program, question, fast)
    waited: dict[str, list[tuple[float, float, int, int]]] = {name: [] for name in programs}
    own: dict[str, list[float]] = {name: [] for name in programs}
    predict, parallel = list[float](), list[float]()
    for n in range(repeats):
        predict.append(_bare(question, fast, threads=False))
        parallel.append(_bare(question, fast, threads=True))
        for name, program in programs.items():
            say(f"{name}, {n + 1} of {repeats}")
            wall = _ask(program, question, slow)
            path, steps = critical_path(slow.calls)
            waited[name].append((wall, path, steps, len(slow.calls)))
            start = time.process_time()
            _ask(program, question, fast)
            cpu = time.process_time() - start
            own[name].append(1000 * cpu / max(1, len(fast.calls)))
    report.predict_ms = statistics.median(predict)
    report.parallel_ms = statistics.median(parallel)
    for name, runs in waited.items():
        ms = statistics.median(own[name])
        report.methods.append(
            MethodTimes(
                name,
                lm_calls=runs[-1][3],
                steps=runs[-1][2],
                critical_path=statistics.median(path for _, path, _, _ in runs),
                wall=statistics.median(wall for wall, _, _, _ in runs),
                ratio=statistics.median(wall / path if path else 0.0 for wall, path, _, _ in runs),
                own_ms=ms,
                times_predict=ms / report.predict_ms,
                times_parallel=ms / report.parallel_ms,
            )
        )
    return report


def _ask(program: MultiHopProgram, question: Question, adapter: TimedOracle) -> float:
    """Seconds for the question; the adapter holds its calls afterwards."""
    adapter.calls.clear()
    with dspy.context(lm=stand_in("bench/lm"), adapter=adapter, disable_history=True):
        start = time.perf_counter()
        program(question=question.question)
        return time.perf_counter() - start


def _bare(question: Question, adapter: TimedOracle, *, threads: bool) -> float:
    """Milliseconds of CPU a call of DSPy alone, one after another or by dspy.Parallel."""
    predict = dspy.Predict(Answer)
    inputs = {"context": "(no passages)", "question": question.question}
    scope = Scope(question.question, Meter(AT_ONCE))
    with (
        dspy.context(lm=stand_in("bench/lm"), adapter=adapter, disable_history=True),
        entering(scope),
    ):
        start = time.process_time()
        if threads:
            many = dspy.Parallel(num_threads=THREADS, disable_progress_bar=True, timeout=0)
            many([(predict, dspy.Example(**inputs).with_inputs(*inputs))] * AT_ONCE)
        else:
            for _ in range(AT_ONCE):
                predict(**inputs)
        seconds = time.process_time() - start
    adapter.calls.clear()
    return 1000 * seconds / AT_ONCE
