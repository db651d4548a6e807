"""What a function is told by its environment variables, read once when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping

from stream_core.agents import Agent, agents_from_json, built_in_agents
from stream_core.allowed_origins import AllowedOrigins, parse_origins
from stream_core.limits import Limits

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
