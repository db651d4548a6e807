"""Settings of the model, its agents, and the filters of its answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AnyHttpUrl, BaseModel, Field, field_validator, model_validator
from pydantic_settings import NoDecode

from evenflow.fargate_handler.settings.environment import Secret
from evenflow.fargate_handler.settings.model_values import (
    CacheTtl,
    Guardrail,
    GuardrailMode,
    ServiceTier,
    profile_words,
    split_address,
)
from evenflow.stream_core.base.agents import LONGEST_CONTEXT
from evenflow.stream_core.base.public_models import own_name, parse_models
from evenflow.stream_core.filtering.groups import GROUPS, Group


class ModelSettings(BaseModel):
    """Where tokens come from, and under which names clients ask for them."""

    model: Literal["demo", "openai", "bedrock", "sagemaker", "grpc"] = Field(
        "demo", description="where tokens come from"
    )
    model_url: AnyHttpUrl | None = Field(
        None, description="base URL of an OpenAI-compatible server, up to /v1 (model=openai)"
    )
    model_name: str = Field(
        "default",
        description=(
            "the model's name there: for bedrock a model or an inference profile, for sagemaker "
            "the endpoint"
        ),
    )
    model_max_tokens: int | None = Field(
        None,
        ge=1,
        description=(
            "the longest answer, in the model's tokens (model=openai, bedrock or sagemaker); with "
            "any model a longer answer is cut soon after it; Bedrock reserves as many tokens of "
            "the account's quota for each answer, by default the model's maximum"
        ),
    )
    model_context_tokens: int | None = Field(
        None,
        ge=1_024,
        le=LONGEST_CONTEXT,
        description=(
            "the model's context, prompt and answer, in its tokens: the oldest exchanges of a "
            "conversation that do not fit are left out; default: what its server says when it "
            "refuses a prompt as too long (an agent may have its own, context_tokens)"
        ),
    )
    bedrock_cache_ttl: CacheTtl | None = Field(
        None,
        description=(
            "how long Bedrock keeps a prompt for the next one that begins alike, 5m or 1h; "
            "default: it is not asked to (model=bedrock, where the model has prompt caching)"
        ),
    )
    bedrock_service_tier: ServiceTier | None = Field(
        None,
        description="priority, default, flex or reserved (model=bedrock, where the model has it)",
    )
    bedrock_guardrail: str | None = Field(
        None,
        description="a guardrail's id or ARN and its version, `abc123:2` (model=bedrock)",
    )
    bedrock_guardrail_mode: GuardrailMode | None = Field(
        None,
        description=(
            "`sync`: text is held back until the guardrail has read it, which is Bedrock's "
            "default; `async`: it is shown at once, and the answer ends where the guardrail "
            "intervenes (model=bedrock)"
        ),
    )
    model_continues: bool = Field(
        False,
        description=(
            "whether the server continues an assistant's turn that comes last, so that a lost "
            "node's answer is continued instead of begun again (model=openai; vLLM does)"
        ),
    )
    model_profile: str = Field(
        "",
        description=(
            "what the model's server takes, a list with commas: `max_completion_tokens` or "
            "`max_tokens`, `developer` or `system`, `-stream_options`, `-parallel_tool_calls`, "
            "`-reasoning_effort`, `-verbosity`, `-image_url` (images only as data); default: a "
            "request that it refuses is made again as it wants it (model=openai)"
        ),
    )
    model_repeatable: bool | None = Field(
        None,
        description=(
            "whether the model may be called twice for one answer, which an agent with tools that "
            "book or pay must not be: `true`: also after it failed in mid-answer; `false`: not "
            "even after its node was lost (the answer ends with `not_repeated`); default: true, "
            "but with model=openai only before any output, or after its node was lost"
        ),
    )
    workers: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description=(
            "addresses of the workers, `host:port,host:port`; a name may stand for several "
            "(model=grpc)"
        ),
    )
    worker_host: str = Field(
        "127.0.0.1", description="address on which a worker serves gRPC (--role worker)"
    )
    worker_port: int = Field(50051, ge=1, le=65535, description="port of a worker (--role worker)")
    model_api_key: Secret | None = Field(
        None, description="bearer token for the model's server (secret)"
    )
    models: str = Field(
        "",
        description=(
            "names by which clients of /v1 ask for models, and their names at the model's server: "
            "`public=upstream,other=upstream2`; a name alone is both, `public=` stands for "
            "EVENFLOW_MODEL_NAME"
        ),
    )
    agents: Path | None = Field(
        None,
        description=(
            "TOML file of the agents that sessions may choose, a table for each; SIGHUP reads it "
            "again"
        ),
    )
    agents_json: str = Field(
        "", description='the agents as JSON instead of a file, `{"name": {"instructions": "…"}}`'
    )
    fallback_text: str = Field(
        "",
        description=(
            "the answer, marked degraded, if all attempts failed and nothing was delivered; "
            "empty: the error"
        ),
    )

    @field_validator("model_profile")
    @classmethod
    def _readable_profile(cls, profile: str) -> str:
        profile_words(profile)
        return profile

    @field_validator("models")
    @classmethod
    def _public_models(cls, models: str) -> str:
        parse_models(models)
        return models

    @field_validator("workers", mode="before")
    @classmethod
    def _separate_workers(cls, workers: object) -> object:
        return (
            tuple(filter(None, map(str.strip, workers.split(","))))
            if isinstance(workers, str)
            else workers
        )

    @field_validator("workers")
    @classmethod
    def _reachable_workers(cls, workers: tuple[str, ...]) -> tuple[str, ...]:
        for address in workers:
            split_address(address)
        if len(set(workers)) < len(workers):
            raise ValueError("names a worker twice")
        return workers

    @field_validator("bedrock_guardrail")
    @classmethod
    def _readable_guardrail(cls, guardrail: str | None) -> str | None:
        return _checked_guardrail(guardrail)

    @model_validator(mode="after")
    def _model_can_be_called(self) -> Self:
        if self.model == "grpc" and not self.workers:
            raise ValueError("workers must be set when model is grpc, e.g. 127.0.0.1:50051")
        if self.model == "openai" and self.model_url is None:
            raise ValueError(
                "model_url must be set when model is openai, e.g. http://127.0.0.1:8000/v1"
            )
        if self.model in ("bedrock", "sagemaker") and self.model_name == "default":
            what = "an inference profile or a model" if self.model == "bedrock" else "an endpoint"
            raise ValueError(
                f"model_name must be set when model is {self.model}: the name of {what}"
            )
        return self

    @model_validator(mode="after")
    def _mode_has_a_guardrail(self) -> Self:
        if self.bedrock_guardrail_mode is not None and self.bedrock_guardrail is None:
            raise ValueError("bedrock_guardrail_mode needs bedrock_guardrail")
        return self

    @model_validator(mode="after")
    def _agents_have_one_list(self) -> Self:
        if self.agents is not None and self.agents_json:
            raise ValueError("agents_json is set beside agents, and only one of them can be")
        return self

    @property
    def described_model(self) -> str:
        """The model and its place for the log, without the credentials in its URL."""
        if self.model == "openai" and self.model_url is not None:
            place = re.sub(r"(?<=://)[^@/]*@|[?#].*", "", str(self.model_url))
            return f"model {self.model_name} at {place}"
        if self.model == "grpc":
            return f"model of the workers {', '.join(self.workers)}"
        if self.model == "demo":
            return "model demo, which EVENFLOW_MODEL replaces"
        return f"model {self.own_model_name} of {self.model}"

    @property
    def own_model_name(self) -> str:
        """The model's name in the log, on `/metrics`, and for clients where they aren't given
        another: at its server, or of an ARN the last part.
        """
        return own_name(self.model, self.model_name)

    @property
    def repeats_broken_answers(self) -> bool:
        """Whether the model may be asked again for an answer that broke off."""
        if self.model_repeatable is None:
            return self.model != "openai" or self.model_continues
        return self.model_repeatable

    @property
    def served_models(self) -> dict[str, str]:
        """The models' names at their server by public name. Empty stands for `model_name`."""
        return parse_models(self.models) or {self.own_model_name: ""}


class ContentFilterSettings(BaseModel):
    """What becomes of answers that content filters would change."""

    filtering: Literal["off", "hold", "retract"] = Field(
        "off",
        description=(
            "what happens to answers that content filters would change: `hold` keeps text back "
            "until it is cleared, `retract` shows it and takes it back; a tenant's record comes "
            "first"
        ),
    )
    filter_patterns: Annotated[tuple[Group, ...], NoDecode] = Field(
        ("secrets",),
        description=f"what is filtered, of {', '.join(GROUPS)}: `secrets,card`",
    )
    filter_action: Literal["redact", "stop"] = Field(
        "redact",
        description=(
            "what a match does: it is replaced, or the answer ends before it with the finish "
            "reason content_filter"
        ),
    )
    filter_file: Path | None = Field(
        None,
        description=(
            "TOML file of own patterns, a table for each with `regex` and `replacement`; no regex "
            "may match more than 2,048 characters"
        ),
    )
    filter_python: str | None = Field(
        None, description="an own filter in Python, `package.module:name`"
    )
    filter_guardrail: str | None = Field(
        None,
        description=(
            "a guardrail of Bedrock that judges what any model says, by its id or ARN and its "
            "version, `abc123:2`"
        ),
    )

    @field_validator("filter_patterns", mode="before")
    @classmethod
    def _separate_groups(cls, groups: object) -> object:
        return tuple(map(str.strip, groups.split(","))) if isinstance(groups, str) else groups

    @field_validator("filter_guardrail")
    @classmethod
    def _readable_filter_guardrail(cls, guardrail: str | None) -> str | None:
        return _checked_guardrail(guardrail)


class DemoSettings(BaseModel):
    """What the demo model alone reads."""

    demo_seed: int = Field(1, description="seed of the demo model's timing")


def _checked_guardrail(guardrail: str | None) -> str | None:
    if guardrail is not None:
        Guardrail.parse(guardrail)
    return guardrail
