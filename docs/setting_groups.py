"""The settings in the order in which docs/limits.md has them: by what somebody wants to change."""

from __future__ import annotations

from collections.abc import Mapping

FIRST = (
    *("model", "model_url", "model_name", "model_api_key"),
    *("http_host", "cookie_secure", "allowed_origins", "trusted_proxies"),
    *("store", "generations_per_node"),
)
"""What nearly every installation changes."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Addresses and proxies": (
        *("http_host", "http_port", "ws_port", "metrics_port", "processes"),
        *("public_http_url", "public_ws_url", "allowed_origins", "allowed_hosts"),
        *("trusted_proxies", "cookie_secure", "page"),
    ),
    "The model": (
        *("model", "model_url", "model_name", "model_api_key", "models", "model_profile"),
        *("model_max_tokens", "model_context_tokens", "model_continues", "model_repeatable"),
        *("model_first_sign_seconds", "model_silence_seconds", "model_deadline_seconds"),
        *("model_retries", "breaker_failures", "breaker_open_seconds", "fallback_text"),
        *("agents", "agents_json", "history_bytes"),
        *("bedrock_cache_ttl", "bedrock_service_tier", "bedrock_guardrail"),
        *("bedrock_guardrail_mode", "demo_seed", "docs"),
    ),
    "Workers": (
        *("workers", "worker_host", "worker_port", "worker_buffer_tokens"),
        *("worker_window_bytes", "worker_rest_seconds"),
    ),
    "Keys, tenants and logins": (
        *("tenant_keys", "tenant_keys_secret", "open_tenant", "token_keys", "token_keys_secret"),
        *("session_token_ttl_seconds", "drain_key"),
        *("oidc_issuer", "oidc_audience", "oidc_tenant_claim", "oidc_tenant"),
        *("oidc_any_tenant", "oidc_user_claim", "oidc_skew_seconds", "oidc_keys_url"),
    ),
    "Budgets and usage": ("model_prices", "reserved_tokens", "usage_ttl_seconds"),
    "Content filters": (
        *("filtering", "filter_patterns", "filter_action", "filter_file", "filter_python"),
        "filter_guardrail",
    ),
    "The store": (
        *("store", "store_path", "store_bytes", "sessions_table", "ledger_table"),
        *("responses_table", "tenants_table", "requests_bucket"),
        *("store_interval_ms", "polled_store_interval_ms", "store_backlog_bytes"),
        *("session_ttl_seconds", "response_ttl_seconds"),
    ),
    "The queue and the places at the model": (
        *("generations_per_node", "queue_depth", "queue_deadline_seconds"),
        *("least_class_share_percent", "prefills_per_tenant", "prefill_delay_ms"),
        *("parked_responses", "parked_seconds"),
    ),
    "Delivery": (
        *("batch_window_ms", "request_window_ms", "batch_window_max_ms", "batch_tokens"),
        *("frame_characters", "grace_seconds", "pause_window_bytes", "pause_seconds"),
        *("credit_window", "poll_timeout_max_ms", "sse_heartbeat_seconds"),
    ),
    "Slow and silent readers": (
        *("lag_notice_deltas", "lag_notice_seconds", "lag_close_seconds", "lag_close_bytes"),
        *("heartbeat_seconds", "pong_timeout_seconds", "write_buffer_bytes"),
        "read_buffer_bytes",
    ),
    "Connections and requests of a node": (
        *("connections_per_node", "requests_per_node", "bodies_per_node"),
        *("descriptors_reserved", "head_seconds", "body_seconds", "body_bytes_per_second"),
        *("keep_alive_seconds", "proxy_keep_alive_seconds", "returning_connections_per_second"),
    ),
    "Sizes of requests": (
        *("message_bytes", "request_bytes", "messages_per_request", "parts_per_request"),
        *("tools_per_request", "values_per_request", "response_bytes"),
    ),
    "Rates and places of a sender": (
        *("messages_per_second", "calls_per_second", "calls_per_sender_per_second"),
        *("frames_per_second", "protocol_errors_per_minute"),
        *("sessions_per_address_per_second", "request_bytes_per_address_per_second"),
        *("connections_per_session", "streams_per_session", "readers_per_response"),
        *("presence_listeners_per_response", "messages_in_flight_per_session"),
        *("messages_in_flight_per_tenant", "messages_waiting_per_session"),
    ),
    "What is held in memory": (
        *("sessions_per_node", "messages_remembered_per_session"),
        *("responses_held_per_session", "responses_held_bytes", "running_held_bytes"),
        *("conversations_held_bytes", "requests_held_bytes", "unsent_held_bytes"),
        "expired_responses_remembered",
    ),
    "Several nodes": (
        *("peer_url", "lease_seconds", "owners_per_response", "dead_letters_queue"),
        *("drain_seconds", "drain_connections_per_second"),
    ),
    "Log and metrics": ("log_level", "log_format", "metrics", "metrics_environment"),
}
"""Each setting once. `ungrouped` finds those that are in none."""


def ungrouped(names: set[str]) -> set[str]:
    """The settings that are in no group, and names in a group that are no settings."""
    return names ^ {name for group in GROUPS.values() for name in group}
