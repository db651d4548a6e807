"""`GET /v1/models`: all models, or one by name, in the form of OpenAI's or Anthropic's API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.answers import json_answer
from evenflow.fargate_handler.gateway.http.senders import sender_of
from evenflow.fargate_handler.gateway.requests.known_models import check_model
from evenflow.stream_core.http.routes import ANTHROPIC, protocol_at

_OWNER = "evenflow"
# Fields of Anthropic's API that have no value here.
_NULL_FIELDS = (
    "capabilities",
    "deprecated_at",
    "line",
    "max_input_tokens",
    "max_tokens",
    "retires_at",
)


class ModelsEndpoint:
    """Lists the names by which clients may call the models."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._created = int(context.wall_time())

    async def list(self, request: web.Request) -> web.Response:
        """List all names that the caller may use."""
        sender = sender_of(request)
        names = self._context.access.models_of(sender.tenant)
        if not _is_of_anthropic(request):
            return json_answer({"object": "list", "data": [self._object(name) for name in names]})
        models = [self._anthropic_object(name) for name in names]
        first, last = (names[0], names[-1]) if names else (None, None)
        ends = {"first_id": first, "last_id": last}
        return json_answer({"data": models, "has_more": False, **ends})

    async def get(self, request: web.Request) -> web.Response:
        """Return the model of the name in the path."""
        sender = sender_of(request)
        name = request.match_info["model"]
        check_model(name, self._context, sender.tenant)
        if _is_of_anthropic(request):
            return json_answer(self._anthropic_object(name))
        return json_answer(self._object(name))

    def _object(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": _OWNER}

    def _anthropic_object(self, name: str) -> dict[str, Any]:
        created = datetime.fromtimestamp(self._created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": created,
            "lifecycle": "active",
            **dict.fromkeys(_NULL_FIELDS),
        }


def _is_of_anthropic(request: web.Request) -> bool:
    return protocol_at(request.path, request.headers) is ANTHROPIC
