"""The AsyncAPI 3.0 document of the WebSockets in `websocket_endpoints`."""

from __future__ import annotations

from functools import cache
from typing import Any

from evenflow.stream_core.api_documents.websocket_endpoints import WEBSOCKETS, WebSocketDescription
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.http.component_schemas import (
    Model,
    client_limits,
    component_schemas,
    first_line,
    frame_name,
    reference,
)

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
        "description": (
            "The same token as an offered subprotocol, `bearer.<token>`. A browser can send no "
            "other header."
        ),
    },
}


def asyncapi_document(limits: Limits) -> dict[str, Any]:
    """The document of a server with these limits."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Evenflow",
            "version": "1",
            "description": (
                "Text frames of JSON. A refused handshake is an HTTP answer: `/openapi.json` "
                "lists them."
            ),
        },
        "defaultContentType": "application/json",
        "servers": {
            "here": {
                "host": "{host}",
                "protocol": "wss",
                "description": (
                    "`POST /session` gives the address as `ws_url`. On your own machine it is `ws`."
                ),
                "variables": {"host": {"default": "127.0.0.1:8080"}},
                "security": [
                    {"$ref": f"#/components/securitySchemes/{name}"} for name in _SECURITY_SCHEMES
                ],
            }
        },
        "channels": {endpoint.name: _channel(endpoint) for endpoint in WEBSOCKETS},
        "operations": dict(
            part for endpoint in WEBSOCKETS for part in _operations(endpoint).items()
        ),
        "components": {
            "messages": {
                model.__name__: _message(model)
                for endpoint in WEBSOCKETS
                for model in _models(endpoint)
            },
            "schemas": _schemas(),
            "securitySchemes": _SECURITY_SCHEMES,
        },
        "x-limits": client_limits(limits),
    }


def _models(endpoint: WebSocketDescription) -> tuple[Model, ...]:
    sent_models = (model for subprotocol in endpoint.subprotocols for model in subprotocol.sent)
    return tuple(dict.fromkeys((*endpoint.received, *sent_models)))


@cache
def _schemas() -> dict[str, Any]:
    received = [model for endpoint in WEBSOCKETS for model in endpoint.received]
    sent_models = [
        model
        for endpoint in WEBSOCKETS
        for model in _models(endpoint)
        if model not in endpoint.received
    ]
    schemas: dict[str, Any] = _tuples_of_draft_7(component_schemas(received, sent_models))
    return schemas


def _channel(endpoint: WebSocketDescription) -> dict[str, Any]:
    query = {
        name: {"type": "string", "description": meaning} for name, meaning in endpoint.query.items()
    }
    return {
        "address": endpoint.path,
        "description": endpoint.meaning,
        "messages": {
            frame_name(model): {"$ref": f"#/components/messages/{model.__name__}"}
            for model in _models(endpoint)
        },
        "bindings": {"ws": {"method": "GET", "query": {"type": "object", "properties": query}}},
        "x-subprotocols": [subprotocol.name for subprotocol in endpoint.subprotocols],
        "x-close-codes": {
            str(code): {"meaning": reason.meaning, "client_does": reason.client_does}
            for code, reason in endpoint.close_codes.items()
        },
    }


def _operations(endpoint: WebSocketDescription) -> dict[str, Any]:
    """The operations as the server sees them: it receives what clients send."""
    receives = {
        f"{endpoint.name}.receive": _operation(
            endpoint, "receive", "What clients send.", endpoint.received
        )
    }
    sends = {
        f"{endpoint.name}.{subprotocol.operation}": _operation(
            endpoint, "send", f"What the server sends in `{subprotocol.name}`.", subprotocol.sent
        )
        for subprotocol in endpoint.subprotocols
    }
    return receives | sends


def _operation(
    endpoint: WebSocketDescription, action: str, summary: str, models: tuple[Model, ...]
) -> dict[str, Any]:
    channel_reference = f"#/channels/{endpoint.name}"
    return {
        "action": action,
        "channel": {"$ref": channel_reference},
        "summary": summary,
        "messages": [
            {"$ref": f"{channel_reference}/messages/{frame_name(model)}"} for model in models
        ],
    }


def _message(model: Model) -> dict[str, Any]:
    return {"name": frame_name(model), "summary": first_line(model), "payload": reference(model)}


def _tuples_of_draft_7(schema: Any) -> Any:
    """Rename `prefixItems` to `items`, its name in JSON schema's draft 7, which AsyncAPI has."""
    if isinstance(schema, list):
        return [_tuples_of_draft_7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        ("items" if name == "prefixItems" else name): _tuples_of_draft_7(inner)
        for name, inner in schema.items()
    }
