"""Settings: flag, then ``HOPSMITH_…`` in the environment, then ``hopsmith.toml``, then default."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from hopsmith.errors import HopsmithError
from retrieval.embedding import BASE as EMBEDDER_BASE
from retrieval.embedding import KEY as EMBEDDER_KEY
from retrieval.wire import TOKEN as INDEX_TOKEN

TOML = "hopsmith.toml"


class Settings(BaseSettings):
    """Everything that is set once for a command."""

    model_config = SettingsConfigDict(
        env_prefix="HOPSMITH_", toml_file=TOML, extra="forbid", env_ignore_empty=True
    )

    lm: str = "local"
    """``local``, ``oracle``, or any LiteLLM name (``openai/gpt-4.1-mini``)."""
    role_lm: Annotated[dict[str, str], NoDecode] = Field(default_factory=dict)
    """Other LMs by role: planner, resolver, synthesizer, writer, sufficiency, judge, … In the
    environment ``ROLE=NAME,ROLE=NAME`` or a JSON object."""
    api_base: str | None = None
    """An OpenAI-compatible endpoint (vLLM, Ollama, llama.cpp)."""
    api_key: SecretStr | None = None
    lm_file: Path | None = None
    """A GGUF file for ``--lm local``."""
    adapter: Literal["json", "chat"] = "json"
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(300, ge=16)
    reasoning_effort: str | None = None
    seed: int = 0
    window: int = Field(8192, ge=512)
    """Context window of ``--lm local``, in tokens."""
    slots: int = Field(1, ge=1, le=16)
    """Requests that ``--lm local`` serves at once; answers repeat exactly with 1 only."""
    prefix_cache: bool = True
    """Whether ``--lm local`` reuses the computation of a prompt's beginning: much faster on growing
    prompts. Off, an answer never depends on what was asked before it."""
    in_flight: int = Field(16, ge=1, le=1024)
    """Requests under way at once at one endpoint, ``--lm local`` aside."""
    index: str | None = None
    """A folder, or the address of an index server (``http://HOST:PORT``)."""
    embedder_base: str | None = None
    """URL of an OpenAI-compatible server that embeds; without it a provider does."""
    embedder_key: SecretStr | None = None
    """Its key, or the provider's; by default the provider's own variable."""
    index_token: SecretStr | None = None
    """The index server's bearer token."""
    retriever: str | None = None
    """An own retriever, ``module:factory``; ``index`` is then what it is called with."""
    graph: str | None = None
    """The graph of the corpus, a file or a database URL; by default the file beside the index."""
    rerank: str = "none"
    """What orders a search's first passages: ``none``, ``lm`` or ``cross-encoder:NAME``."""
    rerank_candidates: int | None = Field(None, ge=2, le=200)
    """How many passages that are; by default 10 for ``lm``, 30 for a cross-encoder."""
    cache: Path | None = None
    """Folder of what is made once: weights, checkpoints, indexes of benchmarks, LM answers. By
    default the user's cache folder."""
    workers: int | None = Field(None, ge=1, le=256)
    """Questions at once; by default 1 for ``local`` and 8 for others."""
    lm_timeout: float = Field(600.0, gt=0)
    """Seconds to wait for an LM's reply before it is asked again: a weak machine reads 60 tokens a
    second."""
    lm_cache: bool = True
    """Whether LM answers are cached on disk, in the cache folder."""
    oracle_noise: float = Field(0.0, ge=0, le=1)
    price: tuple[float, float] | None = None
    """Dollars per million (input, output) tokens."""
    deadline: float | None = Field(None, gt=0)
    """Seconds a question may take."""
    max_calls: int | None = Field(None, ge=1)
    """LM calls that a command may pay for."""
    max_cost: float | None = Field(None, gt=0)
    """Dollars that a command may spend."""
    token: SecretStr | None = None
    """Bearer token that a server's clients must send; needed to listen beyond loopback."""
    admin_token: SecretStr | None = None
    """Bearer token for reloading a server over HTTP."""

    @field_validator("role_lm", mode="before")
    @classmethod
    def _read_role_lm(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("{"):
            return json.loads(value)
        return _by_role(value.split(","))

    @field_validator("price", mode="before")
    @classmethod
    def _read_price(cls, value: Any) -> Any:
        if isinstance(value, str):
            parts = value.split(",")
            if len(parts) != 2:
                raise ValueError("price is IN,OUT: dollars per million tokens, such as 0.15,0.60")
            return tuple(float(p) for p in parts)
        return value

    @field_validator("price")
    @classmethod
    def _price_of_something(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not all(0 <= p < math.inf for p in value):
            raise ValueError("a price is a number of dollars, not below 0")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def at_once(self) -> int:
        """Questions at once, the default filled in."""
        if self.workers is not None:
            return self.workers
        return self.slots if self.lm == "local" else 8


def load_settings(**flags: Any) -> Settings:
    """Settings with the given flags; a flag that is None was not given. Raises ``HopsmithError``
    naming the variable, file or flag at fault.

    A cache folder, an index token and where and with which key to embed are handed on in the
    variables of their names, where every room looks.
    """
    given = {k: v for k, v in flags.items() if v is not None}
    try:
        settings = Settings(**given)
    except ValidationError as fault:
        first = fault.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        what = first["msg"].removeprefix("Value error, ")
        raise HopsmithError(f"{_where(name, given)}: {what}") from fault
    except Exception as fault:
        raise HopsmithError(f"{TOML} or HOPSMITH_… can't be read: {fault}") from fault
    if settings.cache is not None:
        os.environ["HOPSMITH_CACHE"] = str(settings.cache.expanduser().resolve())
    if settings.index_token is not None:
        os.environ[INDEX_TOKEN] = settings.index_token.get_secret_value()
    if settings.embedder_base is not None:
        os.environ[EMBEDDER_BASE] = settings.embedder_base
    if settings.embedder_key is not None:
        os.environ[EMBEDDER_KEY] = settings.embedder_key.get_secret_value()
    return settings


def _where(name: str, given: dict[str, Any]) -> str:
    if name in given:
        return "--" + name.replace("_", "-")
    variable = f"HOPSMITH_{name.upper()}"
    return variable if variable in os.environ else f"{name} in {TOML}"


def role_lms(pairs: list[str] | None) -> dict[str, str] | None:
    """``ROLE=NAME`` flags as a mapping; None when there are none."""
    try:
        return _by_role(pairs) if pairs else None
    except ValueError as fault:
        raise HopsmithError(f"--role-lm: {fault}") from fault


def _by_role(pairs: list[str]) -> dict[str, str]:
    out = {}
    for pair in pairs:
        role, _, name = (part.strip() for part in pair.partition("="))
        if not role or not name:
            raise ValueError(f"{pair!r} is not ROLE=NAME, such as planner=local")
        out[role] = name
    return out
