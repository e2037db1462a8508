"""LMs by name: the local one, the oracle's stand-in, an endpoint of yours, or any of LiteLLM's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from hopsmith.errors import HopsmithError
from hopsmith.settings import Settings

if TYPE_CHECKING:
    from dspy.adapters.base import Adapter
    from dspy.clients.base_lm import BaseLM

LOCAL, ORACLE = "local", "oracle"
LOCAL_PROVIDER, ENDPOINT_PROVIDER = "hopsmith-local", "hopsmith-endpoint"
RETRIES = 3

KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "azure": ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_AD_TOKEN"),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "huggingface": ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
}
"""Variables any of which holds a provider's key. Of other providers LiteLLM is asked."""
OWN_PROTOCOL = frozenset(
    {"anthropic", "azure", "azure_ai", "bedrock", "databricks", "gemini"}
    | {"ollama", "ollama_chat", "vertex_ai", "watsonx"}
)
"""Providers that keep their own protocol when ``--api-base`` says where they are."""
IDENTITY = (
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "seed",
    "top_p",
    "top_k",
    "stop",
    "frequency_penalty",
    "presence_penalty",
)
"""Parameters that change what an LM answers."""


def make_lm(settings: Settings, name: str | None = None, role: str | None = None) -> BaseLM:
    """The LM of ``name``; else of ``role``, if it has its own; else ``settings.lm``.

    A name may carry its own endpoint, ``NAME@http://HOST/v1``, which goes before ``--api-base``.
    Raises ``HopsmithError``: one line that names the mend.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    name = name or (settings.role_lm.get(role) if role else None) or settings.lm
    if name == LOCAL:
        return _local(settings)
    if name == ORACLE:
        from benchmarks.scripted import stand_in

        lm: BaseLM = stand_in("oracle/gold")
        return lm
    name, at, address = name.partition("@http")
    base = f"http{address}" if at else settings.api_base
    if base and name.partition("/")[0] not in OWN_PROTOCOL:
        return _endpoint(settings, name, base)
    return _provider(settings, name, base)


def role_lms(settings: Settings) -> dict[str, BaseLM]:
    """The LMs of the roles that have their own. Raises ``ProgramError`` for a role there isn't."""
    from programs.registry import check_roles

    check_roles(settings.role_lm)
    return {role: make_lm(settings, name) for role, name in settings.role_lm.items()}


def make_adapter(settings: Settings) -> Adapter:
    """JSON by default; chat without its hidden second call through JSON."""
    import dspy

    if settings.adapter == "chat":
        return dspy.ChatAdapter(use_json_adapter_fallback=False)
    return dspy.JSONAdapter(use_native_function_calling=False)


def configure_cache(folder: Path | None, *, on: bool = True) -> None:
    """Keep LM answers in ``folder``; in memory alone when it is None; nowhere unless ``on``."""
    import dspy

    try:
        dspy.configure_cache(
            enable_disk_cache=on and folder is not None,
            enable_memory_cache=on,
            disk_cache_dir=str(folder) if folder is not None else None,
        )
    except OSError as fault:
        raise HopsmithError(
            f"can't keep LM answers in {folder}: {fault.strerror or fault}; set HOPSMITH_CACHE to "
            "a folder that can be written, or HOPSMITH_LM_CACHE=false"
        ) from fault


def lm_identity(lm: BaseLM) -> dict[str, Any]:
    """What makes an LM's answers its own: name and parameters. No key, address or port."""
    given = {k: lm.kwargs[k] for k in IDENTITY if lm.kwargs.get(k) is not None}
    return {"name": lm.model, **given}


def _local(settings: Settings) -> BaseLM:
    from hopsmith.endpoint import EndpointLM
    from hopsmith.local_lm import serve
    from hopsmith.weights import find_weights

    served = serve(
        find_weights(settings.lm_file, say=_say),
        window=settings.window,
        slots=settings.slots,
        prefix_cache=settings.prefix_cache,
        say=_say,
    )
    _register(LOCAL_PROVIDER)
    return EndpointLM(
        f"{LOCAL_PROVIDER}/{served.weights.name}",
        endpoint=served.url,
        at_once=settings.slots,
        window=settings.window,
        api_base=served.url,
        api_key="local",
        seed=settings.seed,
        **_common(settings),
    )


def _endpoint(settings: Settings, name: str, base: str) -> BaseLM:
    """``name`` as an OpenAI-compatible server knows it. Its key is ``HOPSMITH_API_KEY`` alone: a
    provider's key isn't sent to whoever serves there."""
    from hopsmith.endpoint import EndpointLM

    base = base.rstrip("/")
    parsed = urlparse(base)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise HopsmithError(f"--api-base {base!r} is no URL such as http://localhost:8000/v1")
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if key is None and parsed.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise HopsmithError(
            f"no key for {parsed.hostname}: set HOPSMITH_API_KEY (any word, if it needs none), or "
            "use --lm local"
        )
    _register(ENDPOINT_PROVIDER)
    return EndpointLM(
        f"{ENDPOINT_PROVIDER}/{name.removeprefix('openai/')}",
        endpoint=base,
        at_once=settings.in_flight,
        api_base=base,
        api_key=key or "none",
        seed=settings.seed,
        **_common(settings),
    )


def _provider(settings: Settings, name: str, base: str | None) -> BaseLM:
    from hopsmith.endpoint import EndpointLM

    provider, slash, model = name.partition("/")
    if not slash or not model:
        raise HopsmithError(
            f"--lm {name!r} is neither local, oracle nor PROVIDER/MODEL such as "
            "openai/gpt-4.1-mini; for a server of your own add --api-base URL"
        )
    given: dict[str, Any] = {}
    if settings.api_key is not None:
        given["api_key"] = settings.api_key.get_secret_value()
    elif provider in KEYS:
        if not any(os.environ.get(variable) for variable in KEYS[provider]):
            raise HopsmithError(f"no key for {name}: set {KEYS[provider][0]}, or use --lm local")
    else:
        _ask_litellm(name, base)
    if base:
        given["api_base"] = base.rstrip("/")
    if provider == "openai":
        given["seed"] = settings.seed
    if _reasons(name):
        _say(f"{name} reasons: it takes temperature 1, no seed, and at least 16000 tokens")
        given.pop("seed", None)
        given |= {"temperature": 1.0, "max_tokens": max(16_000, settings.max_tokens)}
    return EndpointLM(
        name,
        endpoint=base or provider,
        at_once=settings.in_flight,
        **{**_common(settings), **given},
    )


def _ask_litellm(name: str, base: str | None) -> None:
    """Raise for a provider that LiteLLM doesn't know, or whose key it misses."""
    import litellm

    litellm.suppress_debug_info = True
    try:
        litellm.get_llm_provider(name)
    except Exception as fault:  # a bad request of its own making
        raise HopsmithError(
            f"--lm {name}: LiteLLM knows no such provider; name one as in openai/gpt-4.1-mini, or "
            "add --api-base URL for an OpenAI-compatible server"
        ) from fault
    wanted = litellm.validate_environment(name, api_base=base).get("missing_keys") or []
    missing = [variable for variable in wanted if not variable.endswith("_API_BASE")]
    if missing:
        raise HopsmithError(f"no key for {name}: set {' and '.join(missing)}, or use --lm local")


def _reasons(name: str) -> bool:
    """Whether DSPy takes ``name`` for a reasoning model of OpenAI's, which refuses ordinary
    temperatures and short replies."""
    from dspy.clients.lm import LM
    from dspy.utils.exceptions import LMConfigurationError

    try:
        LM(name, temperature=0.5, max_tokens=16)
    except LMConfigurationError:
        return True
    return False


def _common(settings: Settings) -> dict[str, Any]:
    common: dict[str, Any] = {
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "timeout": settings.lm_timeout,
        "cache": settings.lm_cache,
        "retries": RETRIES,
    }
    if settings.reasoning_effort:
        common["reasoning_effort"] = settings.reasoning_effort
    return common


def _register(provider: str) -> None:
    """Declare an OpenAI-compatible server that holds answers to a JSON schema: DSPy's catalogue
    knows nothing of own models and would ask for bare JSON."""
    from dspy import lm15
    from dspy._vendor.lm15 import access

    definition = lm15.ProviderDefinition.chat(
        access.AccessPolicy(provider=provider, env_keys=(), base_url="http://127.0.0.1:9/v1"),
        compat=lm15.OpenAIChatCompat.preset("vllm"),
        placeholder_key="none",
    )
    lm15.register_provider(
        definition, supports=lm15.ModelSupport(response_schema=True), replace=True
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
