"""Which LM failures stop a whole run, and which may pass when tried again."""

from __future__ import annotations


class StopRun(BaseException):  # noqa: N818 - a signal that code swallowing Exception lets through
    """A configuration fault: no retry mends it. The message names the mend, in one line."""


def is_configuration_fault(fault: BaseException) -> str | None:
    """The one-line mend when ``fault`` is one of configuration, else None."""
    from dspy.utils import exceptions as dspy_faults

    from programs.errors import ProgramError

    if isinstance(fault, ProgramError) or getattr(fault, "stops_run", False):
        return str(fault)
    if isinstance(fault, dspy_faults.LMAuthError):
        return f"the LM endpoint refused the key: {_line(fault)}"
    if isinstance(fault, (dspy_faults.LMNotConfiguredError, dspy_faults.LMUnsupportedModelError)):
        return f"the LM can't be used: {_line(fault)}"
    return None


def is_transient(fault: BaseException) -> bool:
    """Whether the same call may succeed later."""
    from dspy.utils import exceptions as dspy_faults

    return isinstance(
        fault,
        (
            dspy_faults.LMTransportError,
            dspy_faults.LMRateLimitError,
            dspy_faults.LMTimeoutError,
            dspy_faults.LMServerError,
        ),
    )


def _line(fault: BaseException) -> str:
    return " ".join(str(fault).split())[:300]
