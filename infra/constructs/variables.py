"""The environment variables of handlers and functions: limits, agents, origins and others."""

from __future__ import annotations

from evenflow.infra.settings.environment_settings import EnvironmentSettings, session_agents
from evenflow.stream_core.base.agents import agents_as_json
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT


def limit_variables(limits: Limits, *always: str) -> dict[str, str]:
    """The variables of the limits that differ from the default, and of those in `always`."""
    changed = limits.model_dump(exclude_defaults=True)
    chosen = {**changed, **{name: getattr(limits, name) for name in always}}
    return {
        f"EVENFLOW_{name.upper()}": f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in chosen.items()
    }


def front_variables(settings: EnvironmentSettings, proxies: int, url: str | None) -> dict[str, str]:
    """The variables of the handlers' front.

    Args:
        proxies: the number of proxies that write X-Forwarded-For. They are in the VPC or in AWS'
            list.
        url: the address that clients call. None: that of each request, by HTTPS.
    """
    is_https = url is None or url.startswith("https:")
    return {
        "EVENFLOW_TRUSTED_PROXIES": f"{settings.network.cidr}={proxies}",
        "EVENFLOW_COOKIE_SECURE": "true" if is_https else "false",
        **({} if url is None else {"EVENFLOW_PUBLIC_HTTP_URL": url}),
    }


def answer_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """A handler's variables of agents, public model names and filters, where they are set."""
    variables = {
        **settings.filters.variables,
        "EVENFLOW_AGENTS_JSON": agents_as_json(settings.agents) if settings.agents else "",
        "EVENFLOW_MODELS": settings.inference.public_models,
    }
    return {name: value for name, value in variables.items() if value}


def price_variables(settings: EnvironmentSettings, name_in_log: str) -> dict[str, str]:
    """`EVENFLOW_MODEL_PRICES`, where prices are set.

    Args:
        name_in_log: of the environment's model.
    """
    prices = settings.inference.model_prices(name_in_log)
    return {"EVENFLOW_MODEL_PRICES": prices} if prices else {}


def session_agent_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """The variables of the function that opens sessions. They have no instructions."""
    model = {"EVENFLOW_MODEL": settings.inference.kind}
    return model | (
        {"EVENFLOW_AGENTS_JSON": agents_as_json(session_agents(settings.agents))}
        if settings.agents
        else {}
    )


def open_tenant_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """`EVENFLOW_OPEN_TENANT`, where `public` opens sessions without its key."""
    return {"EVENFLOW_OPEN_TENANT": OPEN_TENANT} if settings.open_tenant else {}


def oidc_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """`EVENFLOW_OIDC_…`, where there is an identity provider."""
    return {} if settings.oidc is None else settings.oidc.to_variables()


def origin_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """`EVENFLOW_ALLOWED_ORIGINS`, where origins are set."""
    origins = ",".join(settings.allowed_origins)
    return {"EVENFLOW_ALLOWED_ORIGINS": origins} if origins else {}
