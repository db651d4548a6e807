"""Reads the agents that the settings name."""

from __future__ import annotations

from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_core.base.agents import (
    Agent,
    AgentsError,
    agents_from_json,
    agents_from_toml,
    built_in_agents,
)


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
