"""Parts of both API documents: schemas of the models, and the limits for clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from evenflow.stream_core.base.limits import Limits

_CLIENT_LIMITS = (
    "message_bytes",
    "messages_per_second",
    "messages_in_flight_per_session",
    "connections_per_session",
    "readers_per_response",
    "presence_listeners_per_response",
    "protocol_errors_per_minute",
    "batch_window_ms",
    "frame_characters",
    "heartbeat_seconds",
    "pong_timeout_seconds",
    "lag_notice_deltas",
    "lag_notice_seconds",
    "lag_close_bytes",
    "lag_close_seconds",
    "pause_seconds",
    "credit_window",
    "grace_seconds",
    "poll_timeout_max_ms",
    "sse_heartbeat_seconds",
    "response_bytes",
    "response_ttl_seconds",
    "session_token_ttl_seconds",
)


def client_limits(limits: Limits) -> dict[str, Any]:
    """The value of each limit that clients meet, and what happens when it is reached."""
    return {
        name: {
            "value": getattr(limits, name),
            "when_reached": Limits.model_fields[name].description,
        }
        for name in _CLIENT_LIMITS
    }


Model = type[BaseModel]


class _AsSent(GenerateJsonSchema):
    """A server's frame leaves out a field that is None by default, so the field is never null."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        inner = schema["schema"]
        if (
            self.mode == "serialization"
            and schema.get("default", ...) is None
            and inner["type"] == "nullable"
        ):
            return self.generate_inner(inner["schema"])
        return super().default_schema(schema)


def component_schemas(received: Iterable[Model], sent: Iterable[Model]) -> dict[str, Any]:
    """The schemas of these models and of all models in them, by name.

    Args:
        received: models that clients send. A field with a default may be missing.
        sent: models that clients are sent.
    """
    modes: dict[Model, JsonSchemaMode] = {
        **dict.fromkeys(received, "validation"),
        **dict.fromkeys(sent, "serialization"),
    }
    inputs = [(model, mode, model.__pydantic_core_schema__) for model, mode in modes.items()]
    generator = _AsSent(by_alias=True, ref_template="#/components/schemas/{model}")
    _, definitions = generator.generate_definitions(inputs)
    return {name: _tidy(schema) for name, schema in definitions.items()}


def reference(model: Model) -> dict[str, str]:
    """A reference to the model's schema in a document."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def frame_name(model: Model) -> str:
    """The `type` of the model's frames. The name of the class for models without one."""
    field = model.model_fields.get("type")
    return str(get_args(field.annotation)[0]) if field is not None else model.__name__


def first_line(model: Model) -> str:
    """The first line of the model's docstring."""
    return (model.__doc__ or "").strip().partition("\n")[0]


def _tidy(schema: Any) -> Any:
    """The schema without the titles that pydantic makes of field names."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: _tidy(value) for key, value in inner.items()}
        if name == "properties"
        else _tidy(inner)
        for name, inner in schema.items()
        if name != "title" or not isinstance(inner, str)
    }
