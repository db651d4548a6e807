"""Reads the fields that clients send back for the model's server, from an earlier answer."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.log.returned_fields import (
    Fields,
    call_fields_of,
    call_id_of,
    fields_of,
    join_fields,
    unsealed,
)
from evenflow.stream_core.session.conversation import ToolCall


def further_fields(given: Mapping[str, Any], known: Container[str], where: str) -> Fields:
    """The fields that are not `known`. They go to the model's server unchanged.

    Args:
        where: the path of `given` in the request, with a dot at its end.

    Raises:
        InvalidRequest: a field has a value that is not valid JSON.
    """
    fields = {
        name: value for name, value in given.items() if value is not None and name not in known
    }
    for name, value in fields.items():
        check_json(value, f"{where}{name}")
    return fields


class Returned(NamedTuple):
    """The fields of a message, and those of its next call, or of the earlier one `call_id`."""

    fields: Fields
    call: Fields
    call_id: str


def parse_returned(kept: object, text: str, where: str) -> Returned:
    """The server's fields of a reasoning with this text.

    Args:
        kept: what the client kept with it: a text or an object. That of another server is ignored.
        where: its path in the request.

    Raises:
        InvalidRequest: the client changed `kept`.
    """
    try:
        given = kept if isinstance(kept, dict) else unsealed(kept)
        returned = Returned(fields_of(given, text), call_fields_of(given), call_id_of(given))
    except ValueError:
        raise InvalidRequest(
            f"{where} is not as it was given with the answer; nothing was generated. Send it "
            "unchanged, or leave it out",
            code="invalid_field",
            param=where,
        ) from None
    check_json([returned.fields, returned.call], where)
    return returned


def with_late_fields(call: ToolCall, late: Mapping[str, Fields]) -> ToolCall:
    """A call with the fields that came after its beginning, by the ids of their calls.

    A call that was kept whole has them already.
    """
    fields = late.get(call.id, {})
    new = {name: value for name, value in fields.items() if call.extra.get(name) != value}
    return replace(call, extra=join_fields(call.extra, new)) if new else call


def returned_fields(kept: object, text: str, where: str) -> Fields:
    """The fields of a message, for protocols in which each call keeps its own."""
    return parse_returned(kept, text, where).fields
