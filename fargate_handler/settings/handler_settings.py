"""The handler's settings: environment variables `EVENFLOW_…`, checked before anything starts."""

from __future__ import annotations

import difflib
import os
import re
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    AnyUrl,
    DirectoryPath,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from evenflow.fargate_handler.inference.worker_pool import split_address
from evenflow.fargate_handler.runtime.memory import usable_cores
from evenflow.fargate_handler.settings.environment import (
    PREFIX,
    is_link,
    is_quoted,
    meant_variables,
    trimmed,
)
from evenflow.fargate_handler.token_sources.bedrock_terms import (
    BedrockTerms,
    CacheTtl,
    Guardrail,
    GuardrailMode,
    ServiceTier,
)
from evenflow.fargate_handler.token_sources.server_profile import ServerProfile
from evenflow.stream_core.auth.allowed_hosts import is_loopback, parse_hosts
from evenflow.stream_core.auth.allowed_origins import parse_origins
from evenflow.stream_core.auth.oidc_settings import Claim, Issuer, OidcSettings, ProviderUrl
from evenflow.stream_core.base.agents import LONGEST_CONTEXT
from evenflow.stream_core.base.channel import NAME_PATTERN
from evenflow.stream_core.base.client_address import LOCAL_PROXIES, TrustedProxies
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.base.public_models import own_name, parse_models
from evenflow.stream_core.filtering.groups import GROUPS, Group
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT

_ROOT = Path(__file__).resolve().parents[2]
_SHORTEST_SECRET = 32
_OIDC = "oidc_"


class ConfigurationError(Exception):
    """The configuration is wrong. The message is one line: the variable, and what it accepts."""


HOW_TO_INSTALL_AWS = "install Evenflow with its extra aws, in a clone by `pip install '.[aws]'`"
"""What to do where the SDK is missing."""


def _in_a_header(secret: SecretStr) -> SecretStr:
    """Trim a secret, and check that an HTTP header can carry it."""
    value = trimmed(secret.get_secret_value())
    if not value.isprintable() or any(character > "\xff" for character in value):
        raise ValueError(
            "has a line break or a character that an HTTP header can't carry: it must be one line "
            "of printable characters of Latin-1"
        )
    return SecretStr(value)


Secret = Annotated[SecretStr, AfterValidator(_in_a_header)]
"""A key or a token that is sent in an HTTP header."""


class HandlerSettings(Limits, BaseSettings):
    """All settings. Each field is the variable `EVENFLOW_<FIELD IN CAPITALS>`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    http_host: str = Field("127.0.0.1", description="address on which this is served")
    http_port: int = Field(8080, ge=1, le=65535, description="port of HTTP and WebSockets")
    ws_port: int | None = Field(
        None, ge=1, le=65535, description="a second port for the same, which clients' ws_url names"
    )
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description=(
            "a port for /metrics alone, for scrapers elsewhere; default: none, and /metrics is at "
            "the other ports for this machine, by no proxy"
        ),
    )
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "handlers that serve the port together, on several cores, or `auto`: as many as there "
            "are cores (store=sqlite); all limits are of each"
        ),
    )
    public_http_url: AnyHttpUrl | None = Field(
        None, description="the base of clients' HTTP calls, if it isn't the address that they used"
    )
    public_ws_url: AnyUrl | None = Field(
        None, description="the WebSocket's public address, if it isn't /ws below public_http_url"
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="other origins whose pages may call, or `*` for all: "
        "`https://app.example.com,http://localhost:3000`",
    )
    trusted_proxies: str = Field(
        LOCAL_PROXIES,
        description=(
            "addresses and networks of the proxies that are believed who the client is, and which "
            "URL it called (X-Forwarded-For, -Proto, -Host and -Prefix, or Forwarded); "
            "`10.0.0.0/16=2`: there are two in a row, and the second address from the right is the "
            "client's"
        ),
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description=(
            "names by which this server may be called, or `*` for all: `chat.example.com`; "
            "addresses, localhost and the hosts of public and peer URLs always may; default: all "
            "names, but none where http_host is this machine's own loopback"
        ),
    )
    drain_key: Secret | None = Field(
        None,
        min_length=16,
        description=(
            "key of 16 characters or more with which `POST /drain` makes the node leave; without "
            "one there is no such path (secret)"
        ),
    )
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
            "task's answer is continued instead of begun again (model=openai; vLLM does)"
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
            "even after its task was lost (the answer ends with `not_repeated`); default: true, "
            "but with model=openai only before any output, or after its task was lost"
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
    demo_seed: int = Field(1, description="seed of the demo model's timing")
    peer_url: AnyHttpUrl | None = Field(
        None,
        description=(
            "where other tasks reach this one; default: the address in ECS's metadata, or http_host"
        ),
    )
    dead_letters_queue: AnyHttpUrl | None = Field(
        None,
        description=(
            "URL of the SQS queue for messages that no task could answer; without one they are "
            "logged"
        ),
    )
    store: Literal["sqlite", "memory", "dynamodb"] = Field(
        "sqlite",
        description=(
            "where sessions and responses are kept: a file that handlers on one machine share, "
            "this process' memory, or tables that all tasks share"
        ),
    )
    store_path: Path = Field(
        Path(".evenflow/evenflow.db"),
        description=(
            "the file, on a local disk; it is made at the first start with its folder "
            "(store=sqlite)"
        ),
    )
    sessions_table: str | None = Field(None, description="table of sessions (store=dynamodb)")
    ledger_table: str | None = Field(
        None, description="table of accepted messages (store=dynamodb)"
    )
    responses_table: str | None = Field(None, description="table of responses (store=dynamodb)")
    tenants_table: str | None = Field(
        None,
        min_length=3,
        description=(
            "table of tenants (store=dynamodb); without one there are only the keys of tenant_keys "
            "or of tenant_keys_secret"
        ),
    )
    requests_bucket: str | None = Field(
        None,
        min_length=3,
        description=(
            "S3 bucket for requests of /v1 that are too large for the ledger (store=dynamodb); "
            "without one they are refused with 413"
        ),
    )
    metrics: Literal["prometheus", "cloudwatch"] = Field(
        "prometheus",
        description="where metrics go: only to /metrics, or also to CloudWatch once a minute",
    )
    metrics_environment: str = Field(
        "local", min_length=1, max_length=64, description="CloudWatch's dimension Environment"
    )
    cookie_secure: bool = Field(
        False, description="whether cookies are for HTTPS only; true wherever clients use HTTPS"
    )
    token_keys_secret: str | None = Field(
        None,
        description=(
            "name or ARN of the secret with the signing keys in Secrets Manager, instead of "
            "token_keys"
        ),
    )
    token_keys: Annotated[Secret, NoDecode] = Field(
        default_factory=lambda: SecretStr(f"local:{secrets.token_urlsafe(32)}"),
        description=(
            "keys that sign session tokens, `kid:secret,kid:secret`; the first signs; secrets of "
            "32 characters or more (secret; default: with store=sqlite the key in the file, "
            "otherwise a new one at each start)"
        ),
    )
    tenant_keys_secret: str | None = Field(
        None, description="name or ARN of the secret with the tenants' keys, instead of tenant_keys"
    )
    open_tenant: str | None = Field(
        None,
        pattern=NAME_PATTERN,
        description="the tenant that opens sessions without a key, though tenants have keys",
    )
    tenant_keys: dict[
        Annotated[str, Field(pattern=NAME_PATTERN)], Annotated[Secret, Field(min_length=16)]
    ] = Field(
        {},
        description=(
            'tenants that need a key, JSON `{"tenant": "key"}`, keys of 16 characters or more '
            "(secret)"
        ),
    )
    oidc_issuer: Issuer | None = Field(
        None,
        description=(
            "the issuer of callers' identity tokens, exactly as in their `iss`: "
            "`https://login.example.com/`; default: none"
        ),
    )
    oidc_audience: str = Field(
        "",
        max_length=1_024,
        description=(
            "the audience of the issuer's tokens: their `aud`, or `client_id` of Cognito's access "
            "tokens (with oidc_issuer)"
        ),
    )
    oidc_tenant_claim: Claim = Field(
        "", description="the claim with the tenant's name; default: all are of oidc_tenant"
    )
    oidc_tenant: str = Field(
        OPEN_TENANT,
        pattern=NAME_PATTERN,
        description="the tenant of the issuer's tokens, where no claim names one",
    )
    oidc_any_tenant: bool = Field(
        False,
        description=(
            "whether oidc_tenant_claim may also name tenants without a record, though others have "
            "one"
        ),
    )
    oidc_user_claim: Claim = Field(
        "sub", min_length=1, description="the claim with the user's name"
    )
    oidc_skew_seconds: float = Field(
        60, ge=0, le=600, description="how far the issuer's clock may differ"
    )
    oidc_keys_url: ProviderUrl | None = Field(
        None,
        description=(
            "where the issuer's keys are (JWKS); default: where its "
            "/.well-known/openid-configuration says"
        ),
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="how much is logged"
    )
    log_format: Literal["json", "text"] | None = Field(
        None,
        description=(
            "how it is logged: a JSON object a line, or text to read; default: text where standard "
            "error is a terminal, otherwise json"
        ),
    )
    model_prices: str = Field(
        "",
        description=(
            "what models cost, by their name in the log (at their server; of an ARN its last "
            "part), in dollars for a million tokens of input and output: "
            "`name=2.50/10,other=3/15/0.30/3.75`; the third price is that of cached input, "
            "the fourth that of input written to the cache, by default both as of other input; "
            "the lines of answers have their cost then"
        ),
    )
    page: Path = Field(_ROOT / "web" / "dist", description="folder of the built page")
    docs: DirectoryPath = Field(
        _ROOT / "docs", description="folder of the pages that the demo model answers from"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read only the environment, trimmed and without service links of Kubernetes."""
        meant = meant_variables(os.environ)
        cast("EnvSettingsSource", env_settings).env_vars = {
            name.lower(): value for name, value in meant.items()
        }
        return init_settings, env_settings

    @field_validator("processes", mode="before")
    @classmethod
    def _a_process_for_each_core(cls, processes: object) -> object:
        return usable_cores() if processes == "auto" else processes

    @field_validator("token_keys")
    @classmethod
    def _readable_keys(cls, keys: SecretStr) -> SecretStr:
        kids: set[str] = set()
        for entry in keys.get_secret_value().split(","):
            kid, _, secret = entry.partition(":")
            if kid in kids:
                raise ValueError("names a key id twice")
            kids.add(kid)
            if not kid or len(secret) < _SHORTEST_SECRET:
                raise ValueError(
                    f"must be kid:secret,kid:secret with secrets of {_SHORTEST_SECRET} characters "
                    "or more"
                )
        return keys

    @field_validator("allowed_origins", mode="before")
    @classmethod
    def _origins_as_browsers_write_them(cls, origins: object) -> object:
        return parse_origins(origins) if isinstance(origins, str) else origins

    @field_validator("trusted_proxies")
    @classmethod
    def _readable_addresses(cls, proxies: str) -> str:
        TrustedProxies(proxies)
        return proxies

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _names_of_hosts(cls, hosts: object) -> object:
        return parse_hosts(hosts) if isinstance(hosts, str) else hosts

    @field_validator("model_prices")
    @classmethod
    def _readable_prices(cls, prices: str) -> str:
        ModelPrices.parse(prices)
        return prices

    @field_validator("model_profile")
    @classmethod
    def _readable_profile(cls, profile: str) -> str:
        ServerProfile.parse(profile)
        return profile

    @field_validator("models")
    @classmethod
    def _public_models(cls, models: str) -> str:
        parse_models(models)
        return models

    @field_validator("filter_patterns", mode="before")
    @classmethod
    def _separate_groups(cls, groups: object) -> object:
        return tuple(map(str.strip, groups.split(","))) if isinstance(groups, str) else groups

    @field_validator("bedrock_guardrail", "filter_guardrail")
    @classmethod
    def _readable_guardrail(cls, guardrail: str | None) -> str | None:
        if guardrail is not None:
            Guardrail.parse(guardrail)
        return guardrail

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
        if self.http_port == self.ws_port:
            raise ValueError("http_port and ws_port must differ")
        if self.metrics_port in (self.http_port, self.ws_port) and self.metrics_port is not None:
            raise ValueError("metrics_port must differ from http_port and ws_port")
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

    @model_validator(mode="after")
    def _tenants_have_one_list(self) -> Self:
        if self.tenant_keys and self.tenant_keys_secret is not None:
            raise ValueError(
                "tenant_keys_secret is set beside tenant_keys, and only one of them can be"
            )
        return self

    @model_validator(mode="after")
    def _issuer_has_an_audience(self) -> Self:
        given = {name for name in self.model_fields_set if name.startswith(_OIDC)}
        if self.oidc_issuer is None and given:
            raise ValueError(f"{min(given)} is set without oidc_issuer, and has no effect")
        if self.oidc_issuer is not None and not self.oidc_audience:
            raise ValueError(
                "oidc_audience must be set beside oidc_issuer: the audience of its tokens"
            )
        return self

    @model_validator(mode="after")
    def _store_has_tables(self) -> Self:
        tables = {
            name: getattr(self, name)
            for name in ("sessions_table", "ledger_table", "responses_table")
        }
        missing = [name for name, table in tables.items() if not table]
        if self.store == "dynamodb" and missing:
            raise ValueError(
                f"{missing[0]} must be set when store is dynamodb: the name of a DynamoDB table"
            )
        if self.store == "dynamodb" and self.message_bytes > LARGEST_ITEM_TEXT:
            raise ValueError(
                f"message_bytes must not be above {LARGEST_ITEM_TEXT} when store is dynamodb: an "
                "item has 400 KB"
            )
        return self

    @model_validator(mode="after")
    def _processes_share_what_they_keep(self) -> Self:
        if self.processes > 1 and self.store != "sqlite":
            raise ValueError(
                "processes above 1 needs store=sqlite, a file that they share: set that, or "
                "processes=1"
            )
        if self.processes > 1 and self.peer_url is not None:
            raise ValueError("peer_url is set beside processes above 1, and each has its own")
        return self

    @model_validator(mode="after")
    def _sdk_is_installed(self) -> Self:
        if find_spec("aiobotocore") is not None:
            return self
        needing = {
            "model": self.model in ("bedrock", "sagemaker"),
            "store": self.store == "dynamodb",
            "metrics": self.metrics == "cloudwatch",
            "token_keys_secret": self.token_keys_secret is not None,
            "tenant_keys_secret": self.tenant_keys_secret is not None,
            "filter_guardrail": self.filter_guardrail is not None,
        }
        for name, needed in needing.items():
            if needed:
                raise ValueError(
                    f"{name} needs the AWS SDK, which is not installed: {HOW_TO_INSTALL_AWS}"
                )
        return self

    @property
    def oidc(self) -> OidcSettings | None:
        """Whose tokens are believed. None: nobody's but our own."""
        if self.oidc_issuer is None:
            return None
        names = OidcSettings.model_fields
        return OidcSettings(**{name: getattr(self, f"{_OIDC}{name}") for name in names})

    @property
    def uses_aws(self) -> bool:
        """Whether anything other than the model is AWS's."""
        secrets_manager = self.token_keys_secret is not None or self.tenant_keys_secret is not None
        return self.store == "dynamodb" or self.metrics == "cloudwatch" or secrets_manager

    @property
    def bedrock_terms(self) -> BedrockTerms:
        """How Bedrock is to treat every call."""
        guardrail = self.bedrock_guardrail
        return BedrockTerms(
            self.bedrock_cache_ttl,
            self.bedrock_service_tier,
            Guardrail.parse(guardrail) if guardrail else None,
            self.bedrock_guardrail_mode,
        )

    @property
    def has_page(self) -> bool:
        """Whether there is a built page."""
        return (self.page / "index.html").is_file()

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
    def callable_as(self) -> tuple[str, ...] | None:
        """The names by which this server may be called. None: all."""
        if not self.allowed_hosts and not is_loopback(self.http_host):
            return None
        urls = (self.public_http_url, self.public_ws_url, self.peer_url)
        own = (url.host for url in urls if url is not None and url.host is not None)
        return (*self.allowed_hosts, *own)

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

    @property
    def prices(self) -> ModelPrices:
        """What models cost."""
        return ModelPrices.parse(self.model_prices)

    def signing_keys_beside(self, stored: str | None) -> dict[str, bytes]:
        """The signing keys that are set, otherwise the store's, which outlives this process."""
        if stored is None or "token_keys" in self.model_fields_set:
            return self.signing_keys
        return {"store": stored.encode()}

    @property
    def signing_keys(self) -> dict[str, bytes]:
        """The secrets by key id, the signing one first."""
        entries = (entry.partition(":") for entry in self.token_keys.get_secret_value().split(","))
        return {kid: secret.encode() for kid, _, secret in entries}

    @property
    def keys_of_tenants(self) -> dict[str, str]:
        """The keys by tenant."""
        return {tenant: key.get_secret_value() for tenant, key in self.tenant_keys.items()}


def load_settings() -> HandlerSettings:
    """Read the settings from the environment.

    Raises:
        ConfigurationError: a variable is wrong, or unknown.
    """
    _refuse_unusable(meant_variables(os.environ))
    try:
        return HandlerSettings()
    except ValidationError as error:
        raise ConfigurationError(_explain(error.errors(include_url=False)[0])) from None
    except ValueError as error:  # a value should be JSON and isn't
        raise ConfigurationError(
            f"{PREFIX}TENANT_KEYS must be JSON: {error.__cause__ or error}"
        ) from None


def _refuse_unusable(variables: Mapping[str, str]) -> None:
    known = {f"{PREFIX}{name.upper()}" for name in HandlerSettings.model_fields}
    for name, value in sorted(variables.items()):
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigurationError(f"{name} is not a setting{hint} docs/limits.md lists them all")
        if is_quoted(value):
            raise ConfigurationError(
                f"{name} has quotation marks around its value, which would be a part of it: remove "
                "them (`docker run --env-file` keeps them, a shell does not)"
            )


def _explain(error: ErrorDetails) -> str:
    said = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        # A rule about several settings names them by their fields.
        for name in sorted(HandlerSettings.model_fields, key=len, reverse=True):
            variable = f"{PREFIX}{name.upper()}"
            # One word, such as `model`, may also be a word of the text.
            if "_" in name or variable not in said:
                said = re.sub(rf"\b{name}\b", variable, said)
        return said
    name = str(error["loc"][0])
    field = HandlerSettings.model_fields[name]
    secret = "(secret" in (field.description or "")
    given = "…" if secret else repr(error["input"])
    accepted = _accepted(field) or f"{said} ({field.description})"
    if is_link(str(error["input"])):
        accepted += "; this value is a service link that Kubernetes sets in pods"
    return f"{PREFIX}{name.upper()}={given}: {accepted}"


def _accepted(field: FieldInfo) -> str | None:
    """What a number may be, in words. None for other fields."""
    if field.annotation in (int, int | None):
        kind = "a whole number"
    elif field.annotation is float:
        kind = "a number"
    else:
        return None
    bounds = [f"from {m.ge}" for m in field.metadata if isinstance(m, Ge)]
    bounds += [f"to {m.le}" for m in field.metadata if isinstance(m, Le)]
    bounds += ["or auto"] if "`auto`" in (field.description or "") else []
    return " ".join(["must be", kind, *bounds])
