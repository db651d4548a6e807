"""Options of the gRPC connections between handlers and workers."""

from __future__ import annotations

from evenflow.stream_core.base.limits import Limits

Options = list[tuple[str, int | str]]

# A machine counts as gone after this silence, and this time without an answer to a ping.
_KEEPALIVE_MS = 3_000
_KEEPALIVE_TIMEOUT_MS = 3_000
_CONNECT_MS = 2_000
_RECONNECT_MS = (200, 2_000)
# The longest character in UTF-8, and room for the rest of a message.
_BYTES_A_CHARACTER, _OVERHEAD = 4, 65_536
_COMMON: Options = [
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    # Measured: without this one, a silent machine was not noticed within half a minute.
    ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    # Otherwise the windows grow to megabytes a stream on a fast line.
    ("grpc.http2.bdp_probe", 0),
]


def handler_options(limits: Limits, authority: str) -> Options:
    """Options of a handler's connection to a worker. `authority` is its address in the settings."""
    first, longest = _RECONNECT_MS
    return [
        *_COMMON,
        ("grpc.default_authority", authority),
        # A worker is called directly, also if the environment names a proxy.
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", first),
        ("grpc.max_reconnect_backoff_ms", longest),
        # In spite of its name this is the timeout of a connection attempt.
        ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # The window of one stream: the bytes that a worker may send to a handler that doesn't read.
        ("grpc.http2.lookahead_bytes", limits.worker_window_bytes),
        ("grpc.max_receive_message_length", _BYTES_A_CHARACTER * limits.response_bytes + _OVERHEAD),
    ]  # fmt: skip


def worker_options(limits: Limits) -> Options:
    """Options of a worker's server."""
    # A request of OpenAI's API may have a text twice, in a part and in its turn.
    # The last exchange is sent in full length.
    longest_request = (
        max(limits.history_bytes, limits.message_bytes + limits.response_bytes)
        + limits.message_bytes
        + 2 * limits.request_bytes
        + limits.response_bytes
    )
    return [
        *_COMMON,
        # Two workers on one port would be a mistake.
        ("grpc.so_reuseport", 0),
        ("grpc.http2.write_buffer_size", limits.worker_window_bytes),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.max_receive_message_length", _BYTES_A_CHARACTER * longest_request + _OVERHEAD),
    ]
