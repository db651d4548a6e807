"""The handler's settings: environment variables `EVENFLOW_…`, checked before anything starts."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self, cast

from annotated_types import Ge, Le
from pydantic import DirectoryPath, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from evenflow.fargate_handler.settings.access_settings import AccessSettings
from evenflow.fargate_handler.settings.environment import (
    PREFIX,
    is_link,
    is_quoted,
    meant_variables,
)
from evenflow.fargate_handler.settings.model_settings import (
    ContentFilterSettings,
    DemoSettings,
    ModelSettings,
)
from evenflow.fargate_handler.settings.server_settings import ServerSettings
from evenflow.fargate_handler.settings.store_settings import StoreSettings
from evenflow.stream_core.auth.allowed_hosts import is_loopback
from evenflow.stream_core.base.agents import (
    Agent,
    AgentsError,
    agents_from_json,
    agents_from_toml,
    built_in_agents,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT

_ROOT = Path(__file__).resolve().parents[2]


class ConfigurationError(Exception):
    """The configuration is wrong. The message is one line: the variable, and what it accepts."""


HOW_TO_INSTALL_AWS = "install Evenflow with its extra aws, in a clone by `pip install '.[aws]'`"
"""The advice where the AWS SDK is missing."""


class HandlerSettings(
    AccessSettings,
    StoreSettings,
    DemoSettings,
    ContentFilterSettings,
    ModelSettings,
    ServerSettings,
    Limits,
    BaseSettings,
):
    """All settings. Each field is the variable `EVENFLOW_<FIELD IN CAPITALS>`.

    Their order, which `docs/limits.md` has, is that of the classes from the last to the first.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

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

    @field_validator("model_prices")
    @classmethod
    def _readable_prices(cls, prices: str) -> str:
        ModelPrices.parse(prices)
        return prices

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
        aws_settings = {
            "model": self.model in ("bedrock", "sagemaker"),
            "store": self.store == "dynamodb",
            "metrics": self.metrics == "cloudwatch",
            "token_keys_secret": self.token_keys_secret is not None,
            "tenant_keys_secret": self.tenant_keys_secret is not None,
            "filter_guardrail": self.filter_guardrail is not None,
        }
        for name, is_aws in aws_settings.items():
            if is_aws:
                raise ValueError(
                    f"{name} needs the AWS SDK, which is not installed: {HOW_TO_INSTALL_AWS}"
                )
        return self

    @property
    def uses_aws(self) -> bool:
        """Whether the store, the metrics or the keys are in AWS."""
        secrets_manager = self.token_keys_secret is not None or self.tenant_keys_secret is not None
        return self.store == "dynamodb" or self.metrics == "cloudwatch" or secrets_manager

    @property
    def has_page(self) -> bool:
        """Whether there is a built page."""
        return (self.page / "index.html").is_file()

    @property
    def callable_as(self) -> tuple[str, ...] | None:
        """The names by which this server may be called. None: all."""
        if not self.allowed_hosts and not is_loopback(self.http_host):
            return None
        urls = (self.public_http_url, self.public_ws_url, self.peer_url)
        own_hosts = (url.host for url in urls if url is not None and url.host is not None)
        return (*self.allowed_hosts, *own_hosts)

    @property
    def prices(self) -> ModelPrices:
        """What models cost."""
        return ModelPrices.parse(self.model_prices)

    def signing_keys_beside(self, stored: str | None) -> dict[str, bytes]:
        """The signing keys that are set, otherwise the store's, which outlives this process."""
        if stored is None or "token_keys" in self.model_fields_set:
            return self.signing_keys
        return {"store": stored.encode()}


def load_settings() -> HandlerSettings:
    """Read the settings from the environment.

    Raises:
        ConfigurationError: a variable is wrong, or unknown.
    """
    _check_variables(meant_variables(os.environ))
    try:
        return HandlerSettings()
    except ValidationError as error:
        raise ConfigurationError(_explain(error.errors(include_url=False)[0])) from None
    except ValueError as error:  # a value should be JSON and isn't
        raise ConfigurationError(
            f"{PREFIX}TENANT_KEYS must be JSON: {error.__cause__ or error}"
        ) from None


def _check_variables(variables: Mapping[str, str]) -> None:
    settings = {f"{PREFIX}{name.upper()}" for name in HandlerSettings.model_fields}
    for name, value in sorted(variables.items()):
        if name.startswith(PREFIX) and name not in settings:
            close = difflib.get_close_matches(name, settings, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigurationError(f"{name} is not a setting{hint} docs/limits.md lists them all")
        if is_quoted(value):
            raise ConfigurationError(
                f"{name} has quotation marks around its value, which would be a part of it: remove "
                "them (`docker run --env-file` keeps them, a shell does not)"
            )


def _explain(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        # A rule about several settings names them by their fields.
        for name in sorted(HandlerSettings.model_fields, key=len, reverse=True):
            variable = f"{PREFIX}{name.upper()}"
            # One word, such as `model`, may also be a word of the text.
            if "_" in name or variable not in message:
                message = re.sub(rf"\b{name}\b", variable, message)
        return message
    name = str(error["loc"][0])
    field = HandlerSettings.model_fields[name]
    secret = "(secret" in (field.description or "")
    value = "…" if secret else repr(error["input"])
    accepted = _accepted(field) or f"{message} ({field.description})"
    if is_link(str(error["input"])):
        accepted += "; this value is a service link that Kubernetes sets in pods"
    return f"{PREFIX}{name.upper()}={value}: {accepted}"


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


def read_agents(settings: HandlerSettings) -> dict[str, Agent]:
    """The agents of the file or of the variable. Without either, the built-in one.

    Raises:
        ConfigurationError: they can't be read, or are wrong. The message is one line that says
            where.
    """
    try:
        if settings.agents is not None:
            return agents_from_toml(settings.agents.read_text("utf-8-sig"), str(settings.agents))
        if settings.agents_json:
            return agents_from_json(settings.agents_json, "EVENFLOW_AGENTS_JSON")
    except AgentsError as error:
        raise ConfigurationError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"EVENFLOW_AGENTS={settings.agents}: cannot be read ({reason})"
        ) from None
    return built_in_agents(demo=settings.model == "demo")
