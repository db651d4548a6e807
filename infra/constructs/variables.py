"""Limits, agents and origins as the environment variables that handlers and functions read."""

from __future__ import annotations

from infra.settings import EnvironmentSettings, told_of
from stream_core.policy.agents import agents_as_json
from stream_core.policy.limits import Limits


def limit_variables(limits: Limits, *always: str) -> dict[str, str]:
    """The variables of the limits that differ from the default, and of those named."""
    changed = limits.model_dump(exclude_defaults=True)
    chosen = {**changed, **{name: getattr(limits, name) for name in always}}
    return {
        f"EVENFLOW_{name.upper()}": f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in chosen.items()
    }


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


def origin_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """`EVENFLOW_ALLOWED_ORIGINS`, where there are any."""
    origins = ",".join(settings.allowed_origins)
    return {"EVENFLOW_ALLOWED_ORIGINS": origins} if origins else {}
