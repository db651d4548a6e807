"""The names by which requests may ask for the model."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.stream_core.protocol.errors import NotFound


def check_model(name: str, context: GatewayContext, tenant_id: str) -> None:
    """Check the name of a model in a tenant's request.

    Raises:
        NotFound: there is no such model, or the tenant may not use it.
    """
    if name not in context.models_of(tenant_id):
        raise NotFound(
            f"there is no model {name[:100]!r}; GET /v1/models lists the names",
            code="model_not_found",
            param="model",
        )
