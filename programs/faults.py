"""Which LM failures stop a whole run, and which may pass when tried again.

Transient failures are tried again before (by ``EndpointLM``, or DSPy's ``num_retries``); what is
judged here comes after that.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator


class StopRun(BaseException):
    """A configuration fault: no retry mends it. The message names the mend, in one line.

    Not an ``Exception``: optimizers, tools and evaluators that swallow those let it through.
    """


def is_configuration_fault(fault: BaseException) -> str | None:
    """The one-line mend when ``fault`` is one of configuration, else None.

    An endpoint that can't be reached at all counts as one: a run that goes on without its LM only
    writes fallbacks.
    """
    from dspy.utils import exceptions as of_dspy

    from programs.errors import ProgramError

    if isinstance(fault, ProgramError) or getattr(fault, "stops_run", False):
        return str(fault)
    if not isinstance(fault, of_dspy.LMError):
        return None
    said = _said(fault)
    if isinstance(fault, of_dspy.LMAuthError):
        return (
            f"the LM endpoint refused the key ({said}): set the provider's key variable, or "
            "HOPSMITH_API_KEY with --api-base, or use --lm local"
        )
    if isinstance(fault, of_dspy.LMBillingError):
        return f"the LM endpoint's account can't pay ({said}): add credit, or use another --lm"
    if isinstance(fault, of_dspy.LMConfigurationError) or "Missing credentials" in said:
        return f"the LM is not set up ({said}): set its key variable, or use --lm local"
    if any(isinstance(f, (ConnectionRefusedError, socket.gaierror)) for f in _causes(fault)):
        return f"no LM answers ({said}): start the server, or correct --api-base or --lm"
    if isinstance(fault, of_dspy.LMUnsupportedFeatureError):
        return f"the LM can't do what was asked ({said}): drop that setting, or use another --lm"
    if isinstance(fault, of_dspy.ContextWindowExceededError):
        return None
    if isinstance(fault, of_dspy.LMUnsupportedModelError) or fault.status == 404:
        return (
            f"the LM endpoint doesn't know the model or the address ({said}): correct --lm, or "
            "--api-base, which mostly ends in /v1"
        )
    if isinstance(fault, of_dspy.LMInvalidRequestError):
        if "Provider NOT provided" in said:
            return "LiteLLM knows no such provider: name one, as in --lm openai/gpt-4.1-mini"
        if any(word in said for word in ("response_format", "json_schema", "structured")):
            return f"the LM endpoint takes no JSON schema ({said}): use --adapter chat"
    return None


def is_transient(fault: BaseException) -> bool:
    """Whether the same call may succeed later."""
    return may_pass(fault) and is_configuration_fault(fault) is None


def may_pass(fault: BaseException) -> bool:
    """Whether an LM call that failed so is worth another try: what DSPy says, and a success (200)
    whose body is not the API's, such as a gateway's page."""
    from dspy.utils.exceptions import LMProviderError, is_retryable_lm_error

    if not isinstance(fault, Exception):
        return False
    return is_retryable_lm_error(fault) or (
        isinstance(fault, LMProviderError) and fault.status == 200
    )


def _causes(fault: BaseException) -> Iterator[BaseException]:
    """``fault`` and what it came from."""
    seen: set[int] = set()
    step: BaseException | None = fault
    while step is not None and id(step) not in seen:
        seen.add(id(step))
        yield step
        step = step.__cause__ or step.__context__


def _said(fault: BaseException) -> str:
    """The first paragraph of a failure, on one line: what follows is advice for programmers."""
    return " ".join(str(fault).partition("\n\n")[0].split())[:240]
