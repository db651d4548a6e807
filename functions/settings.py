"""The functions' settings, read from their environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from stream_core.policy.agents import Agent, agents_from_json, built_in_agents
from stream_core.policy.allowed_origins import AllowedOrigins, parse_origins
from stream_core.policy.limits import Limits

_PREFIX = "EVENFLOW_"


class ConfigurationError(Exception):
    """A variable is missing or wrong. The message names it."""


def required(environment: Mapping[str, str], name: str) -> str:
    """The variable `EVENFLOW_<NAME>`.

    Raises:
        ConfigurationError: it is not set, or empty.
    """
    variable = _PREFIX + name.upper()
    value = environment.get(variable)
    if not value:
        raise ConfigurationError(f"{variable} must be set")
    return value


def allowed_origins(environment: Mapping[str, str]) -> AllowedOrigins:
    """The origins whose pages may call, by the same variable as the handler's.

    Raises:
        ConfigurationError: one of them is none.
    """
    variable = f"{_PREFIX}ALLOWED_ORIGINS"
    try:
        return AllowedOrigins(parse_origins(environment.get(variable, "")))
    except ValueError as error:
        raise ConfigurationError(f"{variable} {error}") from None


def agents(environment: Mapping[str, str]) -> dict[str, Agent]:
    """The agents, by the same variables and with the same default as the handler's.

    Raises:
        ConfigurationError: they are not right.
    """
    variable = f"{_PREFIX}AGENTS_JSON"
    try:
        text = environment.get(variable)
        demo = environment.get(f"{_PREFIX}MODEL") == "demo"
        return agents_from_json(text, variable) if text else built_in_agents(demo=demo)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def limits(environment: Mapping[str, str]) -> Limits:
    """The limits, by the same variables and with the same defaults as the handler's.

    Raises:
        ConfigurationError: one of them is out of its range, or two contradict each other.
    """
    given = {
        name: environment[_PREFIX + name.upper()]
        for name in Limits.model_fields
        if _PREFIX + name.upper() in environment
    }
    try:
        return Limits.model_validate(given)
    except ValueError as error:
        raise ConfigurationError(f"{_PREFIX} limits: {error}") from None


@dataclass(frozen=True, slots=True)
class PollResponseSettings:
    """The variables `EVENFLOW_TOKEN_KEYS_SECRET` (an ARN), `EVENFLOW_RESPONSES_TABLE`, `EVENFLOW_METRICS_ENVIRONMENT`,
    `EVENFLOW_ALLOWED_ORIGINS` if there are any, and those of the limits.
    """

    token_keys_secret: str
    responses_table: str
    metrics_environment: str
    allowed_origins: AllowedOrigins
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ConfigurationError: one is missing or wrong.
        """
        return cls(
            token_keys_secret=required(environment, "token_keys_secret"),
            responses_table=required(environment, "responses_table"),
            metrics_environment=required(environment, "metrics_environment"),
            allowed_origins=allowed_origins(environment),
            limits=limits(environment),
        )


@dataclass(frozen=True, slots=True)
class SessionInitSettings:
    """The variables `EVENFLOW_TOKEN_KEYS_SECRET`, `EVENFLOW_TENANT_KEYS_SECRET` (both ARNs), `EVENFLOW_SESSIONS_TABLE`,
    `EVENFLOW_ALLOWED_ORIGINS` if there are any, `EVENFLOW_AGENTS_JSON` likewise, `EVENFLOW_MODEL`, and those of the limits.
    """

    token_keys_secret: str
    tenant_keys_secret: str
    sessions_table: str
    allowed_origins: AllowedOrigins
    agents: dict[str, Agent]
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ConfigurationError: one is missing or wrong.
        """
        return cls(
            token_keys_secret=required(environment, "token_keys_secret"),
            tenant_keys_secret=required(environment, "tenant_keys_secret"),
            sessions_table=required(environment, "sessions_table"),
            allowed_origins=allowed_origins(environment),
            agents=agents(environment),
            limits=limits(environment),
        )
