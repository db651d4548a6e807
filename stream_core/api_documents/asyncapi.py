"""The AsyncAPI document: what `websocket_channels` lists, written as AsyncAPI 3.0 wants it."""

from __future__ import annotations

from functools import cache
from typing import Any

from stream_core.api_documents.client_limits import client_limits
from stream_core.api_documents.component_schemas import Model, component_schemas, first_line, frame_name, reference
from stream_core.api_documents.websocket_channels import CHANNELS, Channel
from stream_core.limits import Limits

_SECURITY_SCHEMES = {
    "session": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "The token that `POST /session` gives, in `Authorization`.",
    },
    "sessionAsSubprotocol": {
        "type": "httpApiKey",
        "in": "header",
        "name": "Sec-WebSocket-Protocol",
        "description": "The same token as one of the subprotocols offered: `bearer.<token>`. A browser can send no other header.",
    },
}


def asyncapi_document(limits: Limits) -> dict[str, Any]:
    """The document of a server with these limits."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Evenflow",
            "version": "1",
            "description": "Text frames of JSON. A refused handshake is an HTTP answer: `/openapi.json` lists them.",
        },
        "defaultContentType": "application/json",
        "servers": {
            "here": {
                "host": "{host}",
                "protocol": "wss",
                "description": "`POST /session` gives the address as `ws_url`; on a machine of one's own it is `ws`.",
                "variables": {"host": {"default": "127.0.0.1:8081"}},
                "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in _SECURITY_SCHEMES],
            }
        },
        "channels": {channel.name: _channel(channel) for channel in CHANNELS},
        "operations": dict(part for channel in CHANNELS for part in _operations(channel).items()),
        "components": {
            "messages": {model.__name__: _message(model) for channel in CHANNELS for model in _models(channel)},
            "schemas": _schemas(),
            "securitySchemes": _SECURITY_SCHEMES,
        },
        "x-limits": client_limits(limits),
    }


def _models(channel: Channel) -> tuple[Model, ...]:
    sent = (model for subprotocol in channel.subprotocols for model in subprotocol.sent)
    return tuple(dict.fromkeys((*channel.received, *sent)))


@cache
def _schemas() -> dict[str, Any]:
    received = [model for channel in CHANNELS for model in channel.received]
    sent = [model for channel in CHANNELS for model in _models(channel) if model not in channel.received]
    schemas: dict[str, Any] = _tuples_of_draft_7(component_schemas(received, sent))
    return schemas


def _channel(channel: Channel) -> dict[str, Any]:
    query = {name: {"type": "string", "description": meaning} for name, meaning in channel.query.items()}
    return {
        "address": channel.path,
        "description": channel.meaning,
        "messages": {
            frame_name(model): {"$ref": f"#/components/messages/{model.__name__}"} for model in _models(channel)
        },
        "bindings": {"ws": {"method": "GET", "query": {"type": "object", "properties": query}}},
        "x-subprotocols": [subprotocol.name for subprotocol in channel.subprotocols],
        "x-close-codes": {
            str(code): {"meaning": reason.meaning, "client_does": reason.client_does}
            for code, reason in channel.close_codes.items()
        },
    }


def _operations(channel: Channel) -> dict[str, Any]:
    """From the server's side: it receives what clients send."""
    receives = {f"{channel.name}.receive": _operation(channel, "receive", "What clients send.", channel.received)}
    sends = {
        f"{channel.name}.{subprotocol.operation}": _operation(
            channel, "send", f"What the server sends in `{subprotocol.name}`.", subprotocol.sent
        )
        for subprotocol in channel.subprotocols
    }
    return receives | sends


def _operation(channel: Channel, action: str, summary: str, models: tuple[Model, ...]) -> dict[str, Any]:
    there = f"#/channels/{channel.name}"
    return {
        "action": action,
        "channel": {"$ref": there},
        "summary": summary,
        "messages": [{"$ref": f"{there}/messages/{frame_name(model)}"} for model in models],
    }


def _message(model: Model) -> dict[str, Any]:
    return {"name": frame_name(model), "summary": first_line(model), "payload": reference(model)}


def _tuples_of_draft_7(schema: Any) -> Any:
    """AsyncAPI's schemas are of JSON schema's draft 7, where `items` is what `prefixItems` is since."""
    if isinstance(schema, list):
        return [_tuples_of_draft_7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {("items" if name == "prefixItems" else name): _tuples_of_draft_7(inner) for name, inner in schema.items()}
