"""The error codes by HTTP status, in groups that several calls share."""

from __future__ import annotations

HOST = {403: ("host_not_allowed",)}
ANY = {
    400: ("bad_request",),
    **HOST,
    429: ("rate_limited",),
    431: ("head_too_large",),
    500: ("internal_error",),
    503: ("node_full",),
}
POST = {415: ("unsupported_media_type",), 417: ("bad_request",)}
BODY = {
    **POST,
    400: ("invalid_json", "invalid_field"),
    408: ("body_timeout",),
    413: ("message_too_large",),
    415: ("unsupported_media_type", "unsupported_encoding"),
}
ENDED = ("session_ended",)
TOKEN = {
    401: ("token_missing", "token_invalid", "token_expired", "token_revoked"),
    403: ("not_permitted", "origin_not_allowed", "tenant_removed", "tenant_unknown"),
    410: ENDED,
    503: ("keys_unavailable",),
}
_OF_PROVIDER = (
    *("identity_token_invalid", "identity_token_algorithm", "identity_token_issuer"),
    *("identity_token_audience", "identity_token_expired", "identity_token_early"),
    "identity_key_unknown",
)
IDENTITY = {
    401: _OF_PROVIDER,
    403: (
        *("key_scope", "identity_claim_invalid", "origin_not_allowed"),
        *("tenant_removed", "tenant_unknown"),
    ),
    503: ("identity_keys_unavailable",),
}
RESPONSE = {
    404: ("response_not_found", "path_not_found"),
    410: ("response_expired",),
    503: ("store_unavailable", "response_elsewhere", "newer_form"),
}
BOUNDS = ("tenant_limit", "key_limit", "user_limit")
READING = {400: ("invalid_field",), 429: ("response_readers",)}
LIVE = {429: BOUNDS}
STREAMING = {429: ("session_streams",)}
ACCEPTING = {
    400: ("array_above_max_length", "model_without_price"),
    403: ("tenant_removed",),
    409: ("causal_violation",),
    410: ("response_expired", "session_ended"),
    429: (
        "rate_limited",
        "address_bytes",
        "session_in_flight",
        "tenant_in_flight",
        *BOUNDS,
        "budget_exhausted",
        "queue_full",
        "sessions_full",
    ),
    503: (
        "draining",
        "store_unavailable",
        "store_behind",
        "store_full",
        "session_contended",
        "response_elsewhere",
        "newer_form",
        "node_memory",
        "upstream_unavailable",
    ),
}
KEY = {
    **IDENTITY,
    401: ("invalid_api_key", "token_expired", "token_revoked", *_OF_PROVIDER),
    403: ("not_permitted", *IDENTITY[403]),
    410: ENDED,
}
COMPLETING = {
    400: (
        "unsupported_parameter",
        "unsupported_value",
        "idempotency_key_reused",
        *ACCEPTING[400],
        "context_length_exceeded",
        "content_policy_violation",
    ),
    404: ("model_not_found", "response_not_found"),
    410: ("response_expired", "response_cancelled", "response_restarted"),
    413: ("model_refused",),
    422: ("model_refused",),
    429: (*ACCEPTING[429], *READING[429], "upstream_throttled", "insufficient_quota"),
    500: ("attempts_exhausted", "not_repeated", "filter_failed"),
    502: ("upstream_failed", "upstream_explained", "model_not_set_up", "response_restarted"),
    503: (
        *ACCEPTING[503],
        "queue_timeout",
        "queue_displaced",
        "overloaded",
        "upstream_overloaded",
    ),
    504: ("first_token_timeout", "model_timeout", "timeout"),
}
STOPPING = {503: (*RESPONSE[503], "owner_unreachable")}
ENDING = {status: COMPLETING[status] for status in (422, 500, 502, 504)}
HANDSHAKE = {
    400: ("unsupported_subprotocol",),
    403: ("origin_not_allowed",),
    426: ("upgrade_required",),
    429: ("session_connections", *BOUNDS),
    503: ("draining", "reconnect_storm"),
}
