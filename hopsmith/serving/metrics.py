"""Numbers for Prometheus. No question, passage or answer is in any of them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from hopsmith.serving.limits import Admission
from hopsmith.serving.schema import PipelineOut
from programs.evidence import Evidence
from programs.ledger import Ledger

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """One server's numbers, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "hopsmith_requests",
            "Requests by endpoint and status.",
            ["endpoint", "status"],
            registry=r,
        )
        self.request_seconds = Histogram(
            "hopsmith_request_seconds",
            "Seconds from a request's arrival to the end of its response.",
            ["endpoint"],
            buckets=SECONDS,
            registry=r,
        )
        self.stage_seconds = Histogram(
            "hopsmith_stage_seconds",
            "Seconds by stage: queue, retrieval (one search), lm (all calls of a question's role).",
            ["stage", "role"],
            buckets=SECONDS,
            registry=r,
        )
        self.hops = Histogram(
            "hopsmith_hops",
            "Hops of a question.",
            ["pipeline"],
            buckets=(0, 1, 2, 3, 4, 6, 8, 12, 20, 50),
            registry=r,
        )
        self.stops = Counter(
            "hopsmith_stop_reasons", "Why questions ended.", ["pipeline", "reason"], registry=r
        )
        self.lm_calls = Counter("hopsmith_lm_calls", "LM calls.", ["role"], registry=r)
        self.tokens = Counter("hopsmith_tokens", "Tokens.", ["role", "kind"], registry=r)
        self.dollars = Counter("hopsmith_dollars", "Money, where prices are known.", registry=r)
        self.errors = Counter(
            "hopsmith_errors",
            "Failures by kind of problem; hop: a step's fallback.",
            ["kind"],
            registry=r,
        )
        self.feedback = Counter("hopsmith_feedback", "Thumbs.", ["thumb"], registry=r)
        self.reloads = Counter("hopsmith_reloads", "Hot swaps by outcome.", ["outcome"], registry=r)
        self.pipelines = Gauge(
            "hopsmith_pipeline_info",
            "1 for each pipeline that is served.",
            ["pipeline", "method", "fingerprint"],
            registry=r,
        )
        self.running = Gauge("hopsmith_in_flight", "Questions being answered.", registry=r)
        self.waiting = Gauge("hopsmith_queued", "Questions waiting for their turn.", registry=r)

    def watch(self, admission: Admission) -> None:
        self.running.set_function(lambda: admission.running)
        self.waiting.set_function(lambda: admission.waiting)

    def serving(self, pipelines: Iterable[PipelineOut]) -> None:
        """Say anew which pipelines there are."""
        self.pipelines.clear()
        for p in pipelines:
            self.pipelines.labels(p.name, p.method, p.fingerprint).set(1)

    def stage(self, stage: str, seconds: float, role: str = "") -> None:
        self.stage_seconds.labels(stage, role).observe(seconds)

    def answered(self, pipeline: str, evidence: Evidence, stop: str, ledger: Ledger) -> None:
        """A question's end."""
        self.hops.labels(pipeline).observe(len(evidence.hops))
        self.stops.labels(pipeline, stop).inc()
        if evidence.errors:
            self.errors.labels("hop").inc(evidence.errors)
        for role, account in ledger.by_role.items():
            self.stage("lm", account.seconds, role)
            self.lm_calls.labels(role).inc(account.lm_calls)
            self.tokens.labels(role, "prompt").inc(account.prompt_tokens)
            self.tokens.labels(role, "completion").inc(account.completion_tokens)
            self.dollars.inc(account.cost or 0.0)

    def text(self) -> bytes:
        return generate_latest(self.registry)
