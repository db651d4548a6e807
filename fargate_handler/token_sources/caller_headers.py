"""For whom an answer is, as headers of the request to the model's server."""

from __future__ import annotations

import string
from urllib.parse import quote

from fargate_handler.token_sources.port import ModelRequest
from stream_core.message_terms import metadata_header

# Everything printable but what marks an escape; a line's end, and what is no ASCII, is escaped.
_AS_IT_IS = string.punctuation.replace("%", "") + " "


def caller_headers(request: ModelRequest) -> dict[str, str]:
    """`Evenflow-…`, those that are known. Values are percent-escaped UTF-8, the metadata is JSON in ASCII."""
    caller = request.caller
    values = {
        "Evenflow-Session": caller.session,
        "Evenflow-User": caller.user,
        "Evenflow-Tenant": caller.tenant,
        "Evenflow-Message": caller.message_id,
    }
    headers = {name: quote(value, safe=_AS_IT_IS) for name, value in values.items() if value}
    headers["Evenflow-Attempt"] = str(request.attempt)
    if caller.metadata:
        headers["Evenflow-Metadata"] = metadata_header(dict(caller.metadata))
    return headers
