"""The functions' settings, from their environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from evenflow.stream_core.auth.allowed_origins import AllowedOrigins, parse_origins
from evenflow.stream_core.auth.oidc_settings import OidcSettings
from evenflow.stream_core.base.agents import Agent, agents_from_json, built_in_agents
from evenflow.stream_core.base.limits import Limits

_PREFIX = "EVENFLOW_"


class FunctionConfigurationError(Exception):
    """A variable is missing or wrong. The message names it."""


def required(environment: Mapping[str, str], name: str) -> str:
    """The value of the variable `EVENFLOW_<NAME>`.

    Raises:
        FunctionConfigurationError: it is missing or empty.
    """
    variable = _PREFIX + name.upper()
    value = environment.get(variable)
    if not value:
        raise FunctionConfigurationError(f"{variable} must be set")
    return value


def allowed_origins(environment: Mapping[str, str]) -> AllowedOrigins:
    """The origins whose pages may call, from the handler's variable.

    Raises:
        FunctionConfigurationError: one of them is not an origin.
    """
    variable = f"{_PREFIX}ALLOWED_ORIGINS"
    try:
        return AllowedOrigins(parse_origins(environment.get(variable, "")))
    except ValueError as error:
        raise FunctionConfigurationError(f"{variable} {error}") from None


def agents(environment: Mapping[str, str]) -> dict[str, Agent]:
    """The agents, from the handler's variables, with the handler's default.

    Raises:
        FunctionConfigurationError: they are wrong.
    """
    variable = f"{_PREFIX}AGENTS_JSON"
    try:
        text = environment.get(variable)
        demo = environment.get(f"{_PREFIX}MODEL") == "demo"
        return agents_from_json(text, variable) if text else built_in_agents(demo=demo)
    except ValueError as error:
        raise FunctionConfigurationError(str(error)) from None


def limits(environment: Mapping[str, str]) -> Limits:
    """The limits, from the handler's variables, with the handler's defaults.

    Raises:
        FunctionConfigurationError: one is out of its range, or two contradict each other.
    """
    variables = {
        name: environment[_PREFIX + name.upper()]
        for name in Limits.model_fields
        if _PREFIX + name.upper() in environment
    }
    try:
        return Limits.model_validate(variables)
    except ValueError as error:
        raise FunctionConfigurationError(f"{_PREFIX} limits: {error}") from None


def oidc(environment: Mapping[str, str]) -> OidcSettings | None:
    """The trusted identity provider, from the handler's variables. None: no provider.

    Raises:
        FunctionConfigurationError: one is missing or wrong.
    """
    try:
        return OidcSettings.from_variables(environment)
    except ValueError as error:
        raise FunctionConfigurationError(str(error)) from None


@dataclass(frozen=True, slots=True)
class PollResponseSettings:
    """The settings of poll_response.

    Its variables are `EVENFLOW_EDGE_KEYS_SECRET` and `EVENFLOW_TOKEN_KEYS_SECRET` (ARNs),
    `EVENFLOW_RESPONSES_TABLE`, `EVENFLOW_TENANTS_TABLE`,
    `EVENFLOW_METRICS_ENVIRONMENT` and, where they are set, `EVENFLOW_ALLOWED_ORIGINS` and the
    limits.
    """

    edge_keys_secret: str
    token_keys_secret: str
    responses_table: str
    tenants_table: str
    metrics_environment: str
    allowed_origins: AllowedOrigins
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            FunctionConfigurationError: a variable is missing or wrong.
        """
        return cls(
            edge_keys_secret=required(environment, "edge_keys_secret"),
            token_keys_secret=required(environment, "token_keys_secret"),
            responses_table=required(environment, "responses_table"),
            tenants_table=required(environment, "tenants_table"),
            metrics_environment=required(environment, "metrics_environment"),
            allowed_origins=allowed_origins(environment),
            limits=limits(environment),
        )


@dataclass(frozen=True, slots=True)
class SessionInitSettings:
    """The settings of session_init.

    Its variables are `EVENFLOW_EDGE_KEYS_SECRET`, `EVENFLOW_TOKEN_KEYS_SECRET` and
    `EVENFLOW_TENANT_KEYS_SECRET` (ARNs),
    `EVENFLOW_SESSIONS_TABLE`, `EVENFLOW_TENANTS_TABLE` and, where they are set,
    `EVENFLOW_OPEN_TENANT` (the tenant that opens sessions without its key),
    `EVENFLOW_ALLOWED_ORIGINS`, `EVENFLOW_AGENTS_JSON`, `EVENFLOW_MODEL`, `EVENFLOW_OIDC_…` and the
    limits.
    """

    edge_keys_secret: str
    token_keys_secret: str
    tenant_keys_secret: str
    sessions_table: str
    tenants_table: str
    open_tenant: str | None
    allowed_origins: AllowedOrigins
    agents: dict[str, Agent]
    oidc: OidcSettings | None
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            FunctionConfigurationError: a variable is missing or wrong.
        """
        return cls(
            edge_keys_secret=required(environment, "edge_keys_secret"),
            token_keys_secret=required(environment, "token_keys_secret"),
            tenant_keys_secret=required(environment, "tenant_keys_secret"),
            sessions_table=required(environment, "sessions_table"),
            tenants_table=required(environment, "tenants_table"),
            open_tenant=environment.get(f"{_PREFIX}OPEN_TENANT") or None,
            allowed_origins=allowed_origins(environment),
            agents=agents(environment),
            oidc=oidc(environment),
            limits=limits(environment),
        )


@dataclass(frozen=True, slots=True)
class CanaryFunctionSettings:
    """The settings of the canary.

    Its variables are `EVENFLOW_URL`, `EVENFLOW_TENANT_KEYS_SECRET` (an ARN), `EVENFLOW_TENANT`,
    `EVENFLOW_QUESTION` and `EVENFLOW_METRICS_ENVIRONMENT`.
    """

    url: str
    tenant_keys_secret: str
    tenant: str
    question: str
    metrics_environment: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            FunctionConfigurationError: a variable is missing.
        """
        return cls(
            url=required(environment, "url"),
            tenant_keys_secret=required(environment, "tenant_keys_secret"),
            tenant=required(environment, "tenant"),
            question=required(environment, "question"),
            metrics_environment=required(environment, "metrics_environment"),
        )


@dataclass(frozen=True, slots=True)
class UsageFileSettings:
    """The settings of usage_file.

    Its variables are `EVENFLOW_TENANTS_TABLE`, `EVENFLOW_TENANT_KEYS_SECRET` (an ARN),
    `EVENFLOW_USAGE_BUCKET` and, where they are set, the limits.
    """

    tenants_table: str
    tenant_keys_secret: str
    usage_bucket: str
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            FunctionConfigurationError: a variable is missing or wrong.
        """
        return cls(
            tenants_table=required(environment, "tenants_table"),
            tenant_keys_secret=required(environment, "tenant_keys_secret"),
            usage_bucket=required(environment, "usage_bucket"),
            limits=limits(environment),
        )
