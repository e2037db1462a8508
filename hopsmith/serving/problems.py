"""Failures as RFC 9457 problem details: one class, one table of kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MEDIA_TYPE = "application/problem+json"

KINDS: Mapping[str, tuple[int, str]] = {
    "malformed": (400, "The request is no JSON"),
    "unauthorized": (401, "A bearer token is needed"),
    "forbidden": (403, "This server does not allow it"),
    "not-found": (404, "There is no such thing here"),
    "method-not-allowed": (405, "This address takes another method"),
    "too-large": (413, "The request is too large"),
    "invalid": (422, "The request can't be answered as it is"),
    "refused": (409, "The new pipeline was refused"),
    "busy": (429, "As many questions as this server answers at once are under way"),
    "gone": (499, "The client hung up"),
    "internal": (500, "The server failed"),
    "lm-unusable": (502, "The LM's replies could not be used"),
    "lm-unavailable": (503, "The LM does not answer"),
    "index-unavailable": (503, "The index can't be searched"),
    "stopping": (503, "The server is being stopped"),
    "deadline": (504, "The time was up before there was any answer"),
    "log-full": (507, "It could not be kept"),
}
"""Status and title by kind. ``type`` is ``urn:hopsmith:KIND``."""


class ProblemDetails(BaseModel):
    """The body of a failure (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:hopsmith:busy"])
    title: str
    status: int
    detail: str
    instance: str | None = Field(None, description="The request's id, as in the server's log.")


class Problem(Exception):
    """A failure that a client is told of. ``more`` are members beside the standard ones."""

    def __init__(
        self, kind: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status, self.title = KINDS[kind]
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    def to_json(self) -> dict[str, Any]:
        body = ProblemDetails(
            type=f"urn:hopsmith:{self.kind}",
            title=self.title,
            status=self.status,
            detail=self.detail,
            **self.more,
        )
        return body.model_dump(exclude_none=True)

    def for_openai(self) -> dict[str, Any]:
        """The same with the ``error`` member that OpenAI's clients look for."""
        error = {"message": self.detail, "type": self.kind, "code": self.kind, "param": None}
        return {**self.to_json(), "error": error}


def busy(seconds: int) -> Problem:
    return Problem(
        "busy", f"try again in {seconds} s", headers={"Retry-After": str(seconds)}, after=seconds
    )
