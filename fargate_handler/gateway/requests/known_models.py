"""Checks and chooses the models that requests name."""

from __future__ import annotations

from contextlib import suppress

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import InvalidRequest, NotFound

_MAX_NAMES = 20


def check_model(name: str, context: GatewayContext, tenant_id: str) -> None:
    """Check the name of a model in a tenant's request.

    Raises:
        NotFound: there is no such model, or the tenant may not use it.
    """
    if name not in context.access.models_of(tenant_id):
        raise NotFound(
            f"there is no model {name[:100]!r}; GET /v1/models lists the names",
            code="model_not_found",
            param="model",
        )


def chosen_model(
    name: str, context: GatewayContext, tenant_id: str, session: Channel | None
) -> str:
    """The model of a request: the one that it names, otherwise the agent's, or the only one.

    Args:
        session: the session of the request's token. None: the tenant's default agent counts.

    Raises:
        NotFound: there is no such model, or the tenant may not use it.
        InvalidRequest: the request names none, and there are several.
    """
    if name:
        check_model(name, context, tenant_id)
        return name
    usable = context.access.models_of(tenant_id)
    of_agent = _model_of_agent(context, tenant_id, session)
    if of_agent in usable:
        return of_agent
    if len(usable) == 1:
        return usable[0]
    names = ", ".join(usable[:_MAX_NAMES])
    raise InvalidRequest(
        "model is required, unless there is only one or the agent has one; nothing was generated. "
        f"Name one of: {names}",
        code="invalid_field",
        param="model",
    )


def _model_of_agent(context: GatewayContext, tenant_id: str, session: Channel | None) -> str:
    agents = context.agents
    with suppress(NotFound):  # the agent no longer exists
        chosen = (
            agents.chosen(None, context.tenants.of(tenant_id).agents)
            if session is None
            else session.agent
        )
        return agents.find(chosen).model or ""
    return ""
