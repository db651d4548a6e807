"""How handlers and workers hold their HTTP/2 connections, one page for both sides: each must allow what the other does."""

from __future__ import annotations

from stream_core.limits import Limits

Options = list[tuple[str, int | str]]

# A machine that is silent for so long, and then doesn't answer for so long, is gone: before the deadline of a first token.
_KEEPALIVE_MS = 3_000
_KEEPALIVE_TIMEOUT_MS = 3_000
_CONNECT_MS = 2_000
_RECONNECT_MS = (200, 2_000)
# UTF-8's longest character, and room for what is around the texts.
_BYTES_A_CHARACTER, _AROUND = 4, 65_536
_COMMON: Options = [
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    # Measured: with the line above alone, a silent machine was not found within half a minute.
    ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    # Left on, the windows grow with the line's speed: to megabytes a stream.
    ("grpc.http2.bdp_probe", 0),
]


def handler_options(limits: Limits, authority: str) -> Options:
    """Of a connection to a worker that the settings call `authority`."""
    first, longest = _RECONNECT_MS
    return [
        *_COMMON,
        ("grpc.default_authority", authority),
        # A worker is a neighbour, whatever this machine's environment says of proxies.
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", first),
        ("grpc.max_reconnect_backoff_ms", longest),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_MS), # how long connecting may take, in spite of its name
        ("grpc.keepalive_permit_without_calls", 1),
        # The window of one stream: what a worker may send ahead of a handler that doesn't read.
        ("grpc.http2.lookahead_bytes", limits.worker_window_bytes),
        ("grpc.max_receive_message_length", _BYTES_A_CHARACTER * limits.response_bytes + _AROUND),
    ]  # fmt: skip


def worker_options(limits: Limits) -> Options:
    """Of a listener for handlers."""
    # A request of OpenAI's API may say a text twice, in a part and as the turn's own.
    longest_request = limits.history_bytes + limits.message_bytes + 2 * limits.request_bytes + limits.response_bytes
    return [
        *_COMMON,
        # Two workers on one port are a mistake.
        ("grpc.so_reuseport", 0),
        ("grpc.http2.write_buffer_size", limits.worker_window_bytes),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.max_receive_message_length", _BYTES_A_CHARACTER * longest_request + _AROUND),
    ]
