"""Agents and models' names as the variables that handlers and functions read."""

from __future__ import annotations

from infra.settings import EnvironmentSettings, told_of
from stream_core.agents import agents_as_json


def agent_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """What a handler is told of agents and of models' names, where anything is set."""
    given = {
        "EVENFLOW_AGENTS_JSON": agents_as_json(settings.agents) if settings.agents else "",
        "EVENFLOW_MODELS": settings.inference.public_models,
    }
    return {variable: value for variable, value in given.items() if value}


def session_agent_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """What the function that opens sessions is told: no instructions."""
    model = {"EVENFLOW_MODEL": settings.inference.kind}
    return model | ({"EVENFLOW_AGENTS_JSON": agents_as_json(told_of(settings.agents))} if settings.agents else {})
