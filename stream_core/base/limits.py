"""All limits, with the effect of each. `docs/limits.md` is generated from here.

Each field is the environment variable `EVENFLOW_<FIELD IN CAPITALS>`.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenflow.stream_core.base.channel import MessageKind


def _limit(default: float | None, minimum: float, maximum: float, when_reached: str) -> Any:
    return Field(default, ge=minimum, le=maximum, description=when_reached)


# Room for pings, and for messages in fragments.
_FRAMES_PER_SECOND, _FRAMES_PER_MESSAGE = 100.0, 5
# Stored signs of a reader at another node per grace period, which counts as at most these seconds.
_SIGNS_PER_GRACE, _LONGEST_SIGNLESS = 3.0, 30.0


class Limits(BaseModel):
    """The limits in force, checked once at the start. Their units are in their names."""

    model_config = ConfigDict(frozen=True)

    connections_per_node: int = _limit(
        12_000,
        1,
        1_000_000,
        "handshakes are rejected with 503 and Retry-After; /health answers 503 to all but the "
        "ALB; while one address has more than half of them, an eighth more is reserved for others",
    )
    requests_per_node: int = _limit(
        12_000,
        1,
        1_000_000,
        "503 node_full with Retry-After; event streams and waiting polls count, too; while one "
        "address has more than half of them, an eighth more is reserved for others",
    )
    bodies_per_node: int = _limit(
        512,
        1,
        1_000_000,
        "requests with an incomplete body; the oldest one is cut, of the address that has most",
    )
    descriptors_reserved: int = _limit(
        1_024,
        0,
        1_000_000,
        "file descriptors reserved for the store, models and files; when the rest is used up, the "
        "longest-idle connections are closed first, then those with half a request, else 503 "
        "node_full, and /health says full (a quarter at most, where there are few)",
    )
    connections_per_session: int = _limit(
        8, 1, 1_000, "the handshake is rejected with 429 session_connections"
    )
    sessions_per_node: int = _limit(
        50_000,
        1,
        10_000_000,
        "the longest-idle session is forgotten; when all are busy, 429 sessions_full",
    )
    sessions_per_address_per_second: float = _limit(
        10,
        0.1,
        1_000_000,
        "429 address_sessions: sessions opened without a tenant's key from one address (burst: a "
        "minute's worth; this machine's own are not counted)",
    )
    readers_per_response: int = _limit(10_000, 1, 1_000_000, "429 response_readers")
    presence_listeners_per_response: int = _limit(100, 1, 10_000, "429 presence_listeners")
    batch_window_ms: int = _limit(
        50,
        10,
        1_000,
        "the delta is cut and delivered; also the shortest delivery interval of chats, of any "
        "service class",
    )
    request_window_ms: int = _limit(
        0,
        0,
        1_000,
        "the same for a request of OpenAI's API (/v1), while the node is calm; it grows to "
        "batch_window_ms between 50 % and 80 % of a core",
    )
    batch_window_max_ms: int = _limit(
        200,
        10,
        5_000,
        "the longest interval to which the delivery clock stretches streams while the work of a "
        "shorter one does not fit into it; streams of tenants over their share are stretched "
        "first",
    )
    batch_tokens: int = _limit(10, 1, 1_000, "the delta is cut")
    write_buffer_bytes: int = _limit(
        65_536,
        4_096,
        16_777_216,
        "`SO_SNDBUF` of the listening socket; while it is full the cursor waits and deltas join",
    )
    read_buffer_bytes: int = _limit(
        131_072, 16_384, 16_777_216, "further data of the client waits on its own machine"
    )
    frame_characters: int = _limit(
        16_384, 256, 1_048_576, "a joined frame ends here and the next one follows"
    )
    lag_notice_deltas: int = _limit(64, 1, 100_000, "`lag` frame")
    lag_notice_seconds: float = _limit(10, 0.1, 3_600, "`lag` frame")
    lag_close_seconds: float = _limit(
        30, 0.1, 3_600, "closed with 4008, or an event `error`, and the resume point"
    )
    lag_close_bytes: int = _limit(
        262_144, 4_096, 67_108_864, "closed with 4008, or an event `error`, and the resume point"
    )
    heartbeat_seconds: float = _limit(25, 0.1, 600, "ping")
    pong_timeout_seconds: float = _limit(60, 0.2, 1_200, "closed with 4010 and deregistered")
    head_seconds: float = _limit(
        10, 0.1, 600, "cut: a connection, or a request over it, with an incomplete head"
    )
    body_seconds: float = _limit(
        30, 0.1, 600, "408 body_timeout, unless body_bytes_per_second arrived in this time"
    )
    body_bytes_per_second: int = _limit(
        1_024, 1, 1_048_576, "408 body_timeout: a body that arrives slower than this"
    )
    keep_alive_seconds: float = _limit(
        20, 0.1, 4_000, "closed: an HTTP connection without a further request"
    )
    proxy_keep_alive_seconds: float = _limit(
        75,
        0.1,
        4_000,
        "the same behind a proxy, which must have a shorter timeout (an ALB's is 60 s)",
    )
    message_bytes: int = _limit(65_536, 256, 16_777_216, "close 1009 / HTTP 413")
    request_bytes: int = _limit(
        4_194_304,
        1_024,
        67_108_864,
        "HTTP 413: the body of a request of OpenAI's API (/v1); over its WebSocket close 1009",
    )
    messages_per_request: int = _limit(
        4_096,
        16,
        1_000_000,
        "400 array_above_max_length: messages, or items, of a request, with those of the earlier "
        "response that it continues; the model gets the newest ones of a session's conversation",
    )
    parts_per_request: int = _limit(
        8_192,
        16,
        1_000_000,
        "400 array_above_max_length: parts and calls of all messages of a request",
    )
    tools_per_request: int = _limit(
        1_024,
        16,
        1_000_000,
        "400 array_above_max_length: tools, and stop sequences, of a request",
    )
    values_per_request: int = _limit(
        131_072,
        1_024,
        100_000_000,
        "HTTP 413: all values of a request's JSON, such as those of its tools' schemas",
    )
    request_bytes_per_address_per_second: float = _limit(
        4_194_304,
        1_024,
        2**40,
        "429 address_bytes: bytes read for requests of one address and tenant: bodies, unpacked, "
        "with 100 bytes for each JSON value, and earlier requests that are read again (burst: 16 "
        "seconds' worth; this machine's own are not counted)",
    )
    requests_held_bytes: int = _limit(
        268_435_456,
        1_048_576,
        2**40,
        "503 node_memory with Retry-After: the memory of messages and requests, from their first "
        "byte to the end of their answer",
    )
    conversations_held_bytes: int = _limit(
        134_217_728,
        1_048_576,
        2**40,
        "the longest-idle session is dropped from memory, and read from the store with its next "
        "message; when all are busy, 503 node_memory",
    )
    running_held_bytes: int = _limit(
        201_326_592,
        1_048_576,
        2**40,
        "the longest answers are stopped, finish_reason length: the memory of the logs of running "
        "answers",
    )
    unsent_held_bytes: int = _limit(
        134_217_728,
        1_048_576,
        2**40,
        "the readers with the most are closed with 4008, an event `error`, or at once, and may "
        "resume: bytes that sockets have not accepted",
    )
    messages_per_second: float = _limit(
        20, 0.1, 100_000, "`throttle` / 429 rate_limited (burst: twice as many)"
    )
    calls_per_second: float = _limit(
        100,
        1,
        1_000_000,
        "HTTP calls and handshakes of one session, share or ticket, counted by their cost (see "
        "Calls; burst: twice as many): one more waits, for 2 s at most, else 429 rate_limited",
    )
    calls_per_sender_per_second: float = _limit(
        400,
        1,
        1_000_000,
        "likewise of one tenant's key, of a tenant's sessions at one address, and of one address "
        "without a key (this machine's own is not counted)",
    )
    streams_per_session: int = _limit(
        64,
        1,
        100_000,
        "429 session_streams: event streams and polls of one session at once; of a share or a "
        "ticket for each address",
    )
    frames_per_second: float | None = _limit(
        None,
        1,
        1_000_000,
        "close 1008: frames of one connection, pings, pongs and fragments too (burst: twice as "
        "many; default: five times messages_per_second, and at least 100)",
    )
    protocol_errors_per_minute: int = _limit(20, 1, 10_000, "close 1008")
    messages_in_flight_per_session: int = _limit(4, 1, 1_000, "`throttle` / 429 session_in_flight")
    messages_in_flight_per_tenant: int | None = _limit(
        None,
        1,
        2_000_000,
        "`throttle` / 429 tenant_in_flight, unless the tenant's record bounds its answers at once "
        "(default: a tenant may use the whole node)",
    )
    messages_remembered_per_session: int = _limit(
        256,
        8,
        100_000,
        "the oldest message_id is forgotten (it could not be repeated without breaking causality)",
    )
    history_bytes: int = _limit(
        1_048_576,
        0,
        16_777_216,
        "the oldest exchanges are no longer sent to the model; the last one always is (0: none); "
        "EVENFLOW_MODEL_CONTEXT_TOKENS, or the model's rejection, is a bound, too",
    )
    session_ttl_seconds: int = _limit(
        86_400,
        86_400,
        31_536_000,
        "a message of a chat is forgotten with its answer, and a session after its last one "
        "(requests that bring their conversation, and texts above 192 KiB: after a day)",
    )
    messages_waiting_per_session: int = _limit(
        64,
        1,
        10_000,
        "`throttle` / 429 session_in_flight: messages of one session that wait to be accepted",
    )
    queue_depth: int = _limit(
        1_000,
        0,
        1_000_000,
        "`system.busy` / 429 queue_full; if another tenant or address has more waiting, its "
        "newest message ends instead, with 503 queue_displaced",
    )
    generations_per_node: int = _limit(
        1_000,
        1,
        1_000_000,
        "the message waits in the queue; while one address has more than half of them, a quarter "
        "more is reserved for others",
    )
    least_class_share_percent: float = _limit(
        5,
        0.1,
        30,
        "a service class that waits behind a higher one still gets this share of the turns",
    )
    prefills_per_tenant: int | None = _limit(
        None,
        1,
        1_000_000,
        "answers of one tenant that have started and have no token yet: its further ones wait "
        "(default: only prefill_delay_ms bounds them)",
    )
    prefill_delay_ms: float = _limit(
        20,
        1,
        60_000,
        "while another tenant is expected back, a model gets at once only the prompts that delay "
        "a first token by this time, or one; it is learned from first tokens, so there is no "
        "limit if prompts don't wait for each other",
    )
    worker_buffer_tokens: int = _limit(
        256,
        1,
        100_000,
        "a worker pauses its model: tokens of one answer that its handler has not read",
    )
    worker_window_bytes: int = _limit(
        4_096,
        1_024,
        1_048_576,
        "HTTP/2 pauses a worker's stream: text for a handler that doesn't read",
    )
    worker_rest_seconds: float = _limit(
        5,
        0.1,
        3_600,
        "a worker that could not be reached is called again, sooner if there is no other",
    )
    queue_deadline_seconds: float = _limit(
        60,
        0.1,
        3_600,
        "503 queue_timeout: no model was free for the message, or to continue after a pause; send "
        "it again",
    )
    model_first_sign_seconds: float = _limit(
        60,
        0.1,
        3_600,
        "no sign of life from the model yet: another attempt, then the error first_token_timeout",
    )
    model_silence_seconds: float = _limit(
        60,
        0.1,
        3_600,
        "no further sign of life: another attempt, then the error model_timeout after the text",
    )
    model_deadline_seconds: float = _limit(
        1_800,
        0.1,
        86_400,
        "the model is stopped; the text stays, finish_reason length (without any text "
        "model_timeout)",
    )
    model_retries: int = _limit(
        1,
        0,
        10,
        "the error after the text; without any text the fallback answer, if one is set, marked "
        "degraded",
    )
    breaker_failures: int = _limit(
        10,
        1,
        1_000_000,
        "503 upstream_unavailable, or the fallback answer, if one is set: consecutive attempts of "
        "one sender at one model, or of several senders, that its server failed before the first "
        "token; throttled and rejected ones don't count",
    )
    breaker_open_seconds: float = _limit(
        10,
        0.1,
        3_600,
        "one attempt tests whether the model's server is available again; until it succeeds, "
        "nothing else is sent to it",
    )
    response_bytes: int = _limit(
        1_048_576, 1_024, 67_108_864, "the model is stopped; finish_reason length"
    )
    response_ttl_seconds: float = _limit(
        86_400, 0.1, 86_400, "410 response_expired: the answer ended longer ago than this"
    )
    responses_held_per_session: int = _limit(
        32,
        1,
        100_000,
        "the session's oldest ended response is dropped from memory, and read from the store on "
        "demand",
    )
    responses_held_bytes: int = _limit(
        134_217_728,
        1_048_576,
        2**40,
        "the oldest finished response is dropped from memory, and read from the store on demand",
    )
    expired_responses_remembered: int = _limit(10_000, 0, 10_000_000, "404 instead of 410")
    grace_seconds: float | None = _limit(
        None,
        0,
        86_400,
        "no reader for this time: the model is stopped; finish_reason abandoned (default: an "
        "answer without readers continues to its end)",
    )
    pause_window_bytes: int = _limit(
        16_384,
        0,
        1_048_576,
        "the model is paused while every reader pauses, or while there is no reader and the store "
        "is behind by as many bytes",
    )
    credit_window: int = _limit(
        65_536, 1, 10_000_000, "`error` invalid_field: no credit is granted"
    )
    pause_seconds: float = _limit(
        300,
        0.1,
        86_400,
        "closed with 4008; without another reader the answer continues as one without readers",
    )
    parked_responses: int = _limit(
        1_000,
        1,
        1_000_000,
        "503 queue_timeout, after its text, for the answer that was parked first",
    )
    parked_seconds: float = _limit(
        30,
        0.1,
        86_400,
        "as pause_seconds, for an answer that was parked since others waited",
    )
    session_token_ttl_seconds: int = _limit(
        3_600, 1, 86_400, "401 token_expired; the client requests a new one"
    )
    poll_timeout_max_ms: int = _limit(30_000, 100, 120_000, "longer timeouts are cut to this")
    sse_heartbeat_seconds: float = _limit(
        15, 0.1, 300, "comment line; before a whole answer of /v1 a newline"
    )
    owners_per_response: int = _limit(
        3, 1, 100, "the message goes to the dead letters; its reader gets attempts_exhausted"
    )
    reserved_tokens: int = _limit(
        1_024,
        16,
        1_000_000,
        "finish_reason budget: an answer without a maximum reserves this many tokens of its "
        "tenant's budgets, and as many again when three quarters of them are used",
    )
    usage_ttl_seconds: float = _limit(
        7_776_000,
        172_800,  # a day's file is made of all of its records, after its end
        315_360_000,
        "usage records and their totals are forgotten",
    )
    lease_seconds: float = _limit(
        3, 2, 600, "another node may take over the answers of a silent one"
    )
    store_interval_ms: int = _limit(
        1_000,
        10,
        10_000,
        "new text is written to the response store (the end at once); text that a crash loses is "
        "generated again, or replaced",
    )
    polled_store_interval_ms: int = _limit(
        150,
        10,
        10_000,
        "likewise for an answer without a reader at its node, which may be polled (the first delta "
        "at once); it grows with the answer's age, up to the one above",
    )
    store_backlog_bytes: int = _limit(
        67_108_864,
        1_024,
        2**40,
        "503 store_behind: text waiting for the response store; running answers continue",
    )
    store_bytes: int = _limit(
        8_589_934_592,
        16_777_216,
        2**50,
        "503 store_full, to the tenant, address and session with most first: the stored messages, "
        "answers and usage. With store=sqlite all of it, and less if the disk has less room; with "
        "store=dynamodb the messages of each tenant",
    )
    returning_connections_per_second: float = _limit(
        500,
        1,
        1_000_000,
        "503 reconnect_storm for clients that reconnect (burst: twice as many); new ones are "
        "accepted",
    )
    drain_connections_per_second: float = _limit(
        250,
        1,
        1_000_000,
        "a leaving node's clients are disconnected one by one at this rate, in three quarters of "
        "the drain at most",
    )
    drain_seconds: float = _limit(
        110,
        0,
        3_600,
        "answers are left to another node, or the next start; with store=memory they end with an "
        "error",
    )

    def window_ms(self, kind: MessageKind) -> int:
        """The shortest delivery interval of answers to messages of this kind."""
        return self.request_window_ms if kind.read_by_program else self.batch_window_ms

    @property
    def reader_sign_seconds(self) -> float:
        """The seconds between two stored signs that another node reads an answer.

        The owner reads them as often: three times a grace, and every ten seconds at least.
        """
        grace = _LONGEST_SIGNLESS if self.grace_seconds is None else self.grace_seconds
        return min(grace, _LONGEST_SIGNLESS) / _SIGNS_PER_GRACE

    @property
    def most_frames_per_second(self) -> float:
        """The number of frames of any kind that a connection may send in a second."""
        if self.frames_per_second is not None:
            return self.frames_per_second
        return max(_FRAMES_PER_SECOND, _FRAMES_PER_MESSAGE * self.messages_per_second)

    @property
    def messages_per_node(self) -> int:
        """The most messages that are answered or in the queue at once."""
        return self.generations_per_node + self.queue_depth

    @model_validator(mode="after")
    def _caps_can_be_reached(self) -> Self:
        tenant, session = self.messages_in_flight_per_tenant, self.messages_in_flight_per_session
        if tenant is not None and tenant > self.messages_per_node:
            raise ValueError(
                "messages_in_flight_per_tenant must not be above generations_per_node and "
                f"queue_depth together ({self.messages_per_node}): the node refuses before it; "
                "leave it out for no cap of its own"
            )
        cap_value = self.messages_per_node if tenant is None else tenant
        if session > cap_value and "messages_in_flight_per_session" in self.model_fields_set:
            cap = (
                "generations_per_node and queue_depth together"
                if tenant is None
                else "messages_in_flight_per_tenant"
            )
            raise ValueError(
                f"messages_in_flight_per_session must not be above {cap} ({cap_value})"
            )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        pairs = (
            ("request_window_ms", "batch_window_ms"),
            ("batch_window_ms", "batch_window_max_ms"),
            ("lag_notice_seconds", "lag_close_seconds"),
            ("keep_alive_seconds", "proxy_keep_alive_seconds"),
            ("messages_in_flight_per_session", "messages_remembered_per_session"),
            ("request_bytes", "requests_held_bytes"),
            ("model_first_sign_seconds", "model_deadline_seconds"),
            ("model_silence_seconds", "model_deadline_seconds"),
        )
        for smaller, larger in pairs:
            if getattr(self, smaller) > getattr(self, larger):
                raise ValueError(f"{smaller} must not be above {larger} ({getattr(self, larger)})")
        if self.pong_timeout_seconds < 1.5 * self.heartbeat_seconds:
            # A pong needs time to arrive. Otherwise clients that answer every ping would be closed.
            raise ValueError("pong_timeout_seconds must be at least 1.5 times heartbeat_seconds")
        return self
