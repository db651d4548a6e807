"""`GET /v1/models`, all of them or one by its name."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.fargate_handler.gateway.http_answers import json_answer
from evenflow.fargate_handler.gateway.requests.known_models import check_model
from evenflow.fargate_handler.gateway.requests.submission import sender_of
from evenflow.stream_core.policy.rights import Right

_OWNER = "evenflow"


class ModelsEndpoint:
    """Lists the names by which clients may ask for the model."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._created = int(context.wall_time())

    async def list(self, request: web.Request) -> web.Response:
        """All names that the caller may use."""
        context = self._context
        sender = await sender_of(request, context, Right.READ)
        names = context.models_of(sender.tenant)
        return json_answer({"object": "list", "data": [self._object(name) for name in names]})

    async def get(self, request: web.Request) -> web.Response:
        """The name in the path."""
        sender = await sender_of(request, self._context, Right.READ)
        name = request.match_info["model"]
        check_model(name, self._context, sender.tenant)
        return json_answer(self._object(name))

    def _object(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": _OWNER}
