"""LMs by name: the local one, the oracle's stand-in, an endpoint of your own, or any of LiteLLM's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import dspy

from hopsmith.errors import HopsmithError
from hopsmith.settings import Settings
from retrieval.folders import cache_folder

LOCAL, ORACLE = "local", "oracle"
LOCAL_PROVIDER, ENDPOINT_PROVIDER = "hopsmith-local", "hopsmith-endpoint"

KEYS: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "azure": "AZURE_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "groq": "GROQ_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "xai": "XAI_API_KEY",
    "cohere": "COHERE_API_KEY",
    "fireworks_ai": "FIREWORKS_AI_API_KEY",
    "huggingface": "HF_TOKEN",
}
"""Variables that hold a provider's key. A provider that isn't here is left to LiteLLM."""
RETRIES = 3


def make_lm(settings: Settings, name: str | None = None) -> dspy.LM:
    """The LM of a name (``settings.lm`` by default). Raises ``HopsmithError`` with one line that
    names the mend."""
    name = name or settings.lm
    if name == LOCAL:
        return _local(settings)
    if name == ORACLE:
        from benchmarks.scripted import stand_in

        return stand_in("oracle/gold")
    if settings.api_base:
        return _endpoint(settings, name)
    return _provider(settings, name)


def role_lms(settings: Settings) -> dict[str, dspy.LM]:
    """The LMs of the roles that have their own."""
    return {role: make_lm(settings, name) for role, name in settings.role_lm.items()}


def make_adapter(settings: Settings) -> dspy.Adapter:
    """JSON by default; chat without its hidden second call through JSON."""
    if settings.adapter == "chat":
        return dspy.ChatAdapter(use_json_adapter_fallback=False)
    return dspy.JSONAdapter(use_native_function_calling=False)


def configure_cache(folder: Path | None, *, on: bool = True) -> None:
    """Where DSPy keeps LM answers: a folder of ours, or nowhere."""
    os.environ.setdefault("DSPY_CACHEDIR", str(cache_folder() / "lm"))
    dspy.configure_cache(
        enable_disk_cache=on,
        enable_memory_cache=on,
        disk_cache_dir=str(folder or cache_folder() / "lm"),
    )


def _common(settings: Settings) -> dict[str, Any]:
    common: dict[str, Any] = {
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "cache": settings.lm_cache,
        "num_retries": RETRIES,
    }
    if settings.reasoning_effort:
        common["reasoning_effort"] = settings.reasoning_effort
    return common


def _local(settings: Settings) -> dspy.LM:
    from hopsmith.local_lm import ServerPlan, local_server
    from hopsmith.weights import find_weights

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    weights = find_weights(settings.lm_file)
    server = local_server(ServerPlan(weights, settings.slots, settings.window), say)
    _register(LOCAL_PROVIDER)
    return dspy.LM(
        f"{LOCAL_PROVIDER}/{weights.model}",
        api_base=server.api_base,
        api_key="local",
        timeout=600,
        **_common(settings),
    )


def _endpoint(settings: Settings, name: str) -> dspy.LM:
    base = str(settings.api_base)
    host = urlparse(base).hostname
    if urlparse(base).scheme not in ("http", "https") or not host:
        raise HopsmithError(f"--api-base {base!r} is no URL such as http://localhost:8000/v1")
    key = settings.api_key.get_secret_value() if settings.api_key else None
    key = key or os.environ.get("OPENAI_API_KEY")
    if key is None and host not in ("localhost", "127.0.0.1", "::1"):
        raise HopsmithError(
            f"no key for {host}: set HOPSMITH_API_KEY (any word, if it needs none), or use "
            "--lm local"
        )
    _register(ENDPOINT_PROVIDER)
    model = name.removeprefix("openai/")
    return dspy.LM(
        f"{ENDPOINT_PROVIDER}/{model}",
        api_base=base,
        api_key=key or "none",
        timeout=600,
        **_common(settings),
    )


def _provider(settings: Settings, name: str) -> dspy.LM:
    provider, slash, model = name.partition("/")
    if not slash or not model:
        raise HopsmithError(
            f"--lm {name!r} is neither local, oracle nor PROVIDER/MODEL such as "
            "openai/gpt-4.1-mini; for a server of your own add --api-base URL"
        )
    key = settings.api_key.get_secret_value() if settings.api_key else None
    variable = KEYS.get(provider)
    if key is None and variable is not None and not os.environ.get(variable):
        raise HopsmithError(f"no key for {name}: set {variable}, or use --lm local")
    given = {"api_key": key} if key else {}
    return dspy.LM(name, **given, **_common(settings))


def _register(provider: str) -> None:
    """Declare an OpenAI-compatible server that holds answers to a JSON schema: DSPy's catalogue
    knows nothing of own models and would ask for bare JSON."""
    from dspy import lm15
    from dspy._vendor.lm15.access import AccessPolicy

    definition = lm15.ProviderDefinition.chat(
        AccessPolicy(provider=provider, env_keys=(), base_url="http://127.0.0.1:9/v1"),
        compat=lm15.OpenAIChatCompat.preset("vllm"),
        placeholder_key="none",
    )
    lm15.register_provider(
        definition, supports=lm15.ModelSupport(response_schema=True), replace=True
    )
