"""The names by which requests may ask for the model."""

from __future__ import annotations

from fargate_handler.gateway.context import GatewayContext
from stream_core.protocol.errors import NotFound


def check_model(name: str, context: GatewayContext) -> None:
    """Check a name of the model.

    Raises:
        NotFound: it is not one of its names.
    """
    if name not in context.models:
        raise NotFound(
            f"there is no model {name[:100]!r}; GET /v1/models lists the names",
            code="model_not_found",
            param="model",
        )
