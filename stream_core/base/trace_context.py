"""Reads `traceparent` of W3C Trace Context: the trace of a message, from its sender."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

TRACEPARENT = "traceparent"
"""The name of the header, and of gRPC's metadata."""

# https://www.w3.org/TR/trace-context/#traceparent-header. Later versions may add fields.
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_INVALID_VERSION = "ff"
_VERSION = "00"
_SAMPLED = 1
_LONGEST = 256


def known_traceparent(text: str | None) -> str:
    """The trace in `text`, written as version 00 has it.

    Empty where `text` names none: then it is as if it had not been sent.
    """
    match = _FORM.fullmatch(text) if text and len(text) <= _LONGEST else None
    if match is None:
        return ""
    version, trace_id, span_id, flags, further_fields = match.groups()
    if version == _INVALID_VERSION or (version == _VERSION and further_fields):
        return ""
    if not (int(trace_id, 16) and int(span_id, 16)):
        return ""
    return f"{_VERSION}-{trace_id}-{span_id}-{int(flags, 16) & _SAMPLED:02x}"


def trace_id_in(traceparent: str) -> str:
    """The trace id of a valid `traceparent`. Empty if that is empty."""
    return traceparent.split("-")[1] if traceparent else ""


Traceparent = Annotated[str, AfterValidator(known_traceparent)]
"""A client's word for the trace of its message. A wrong one is no error."""
