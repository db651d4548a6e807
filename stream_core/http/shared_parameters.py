"""What several calls take, and who may call them."""

from __future__ import annotations

from evenflow.stream_core.http.http_contract import CHUNK_ID_PATTERN
from evenflow.stream_core.http.operation import Parameter

RESPONSE_ID = Parameter(
    "response_id",
    "path",
    "From the answer to `POST /chat/message`.",
    {"type": "string", "minLength": 1},
)
KEYS = ("", "tenantKey", "session")
IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    "The same request with the same key gives the same response, and nothing is generated twice.",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
TIMEOUT = Parameter(
    "Evenflow-Timeout-Ms",
    "header",
    "The most milliseconds that the whole answer may take. `timeout_ms` in the body overrides it.",
    {"type": "integer", "minimum": 1},
)
FIRST_TOKEN = Parameter(
    "x-slo-ttft-ms",
    "header",
    "Within how many milliseconds the first token is wanted. Of what waits of one address, the "
    "request wanted first comes first.",
    {"type": "integer", "minimum": 1},
)
LAST_CHUNK_ID = Parameter(
    "Last-Event-ID",
    "header",
    "The `id` of the last event that the client has, empty for none.",
    {"type": "string", "pattern": f"^$|{CHUNK_ID_PATTERN}"},
)
