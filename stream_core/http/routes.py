"""All HTTP paths, in one table: it routes, documents, and configures the edge in AWS."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Literal

from evenflow.stream_core.auth.rights import Right

EDGE_KEY_HEADER = "x-evenflow-edge-key"
"""The header in which CloudFront sends its key to the functions."""

ANTHROPIC_VERSION = "anthropic-version"
"""The header that each client of Anthropic's API sends."""

_NAME = re.compile(r"\{(\w+)(\+?)\}")


class ServedBy(StrEnum):
    """The server of a path in AWS. On one machine the handler serves all of them."""

    HANDLER = "handler"
    """The handler, behind the load balancer."""
    SESSION_INIT = "session_init"
    """The Lambda function that opens sessions."""
    POLL_RESPONSE = "poll_response"
    """The Lambda function that answers long polls."""
    PAGE = "page"
    """The bucket with the built page."""
    MODULES = "modules"
    """The same bucket: modules and assets that pages of other origins load."""
    MACHINE = "machine"
    """Not public in AWS: only the handler's own machine and its health checks use the path."""


class Credential(StrEnum):
    """The credential that a call needs."""

    NOTHING = "nothing"
    OPERATOR = "operator"
    """The own machine, or the key that the operator has set."""
    OPENER = "opener"
    """A tenant's key, or a token of its identity provider, where sessions need one."""
    SENDER = "sender"
    """A tenant's key, a session's token, or one of the identity provider."""
    SESSION = "session"
    """A session's token."""
    READER = "reader"
    """A session's token, or a ticket for the response in the path."""


class Bound(StrEnum):
    """The limits of a call, besides the rate of all calls."""

    CALL = "call"
    """None: it is answered at once, and has no body."""
    BODY = "body"
    """It has a small body."""
    STREAM = "stream"
    """It reads a response, and may wait for it."""
    ANSWER = "answer"
    """It calls a model."""
    SOCKET = "socket"
    """It opens a WebSocket."""
    MACHINE = "machine"
    """It is not a client's call: only its address has a rate."""


LIMITS_OF: Mapping[Bound, tuple[str, ...]] = {
    Bound.CALL: (),
    Bound.BODY: ("message_bytes", "bodies_per_node"),
    Bound.STREAM: ("streams_per_session", "readers_per_response", "requests_per_node"),
    Bound.ANSWER: (
        *("messages_per_second", "messages_in_flight_per_session", "queue_depth"),
        *("request_bytes", "requests_held_bytes"),
    ),
    Bound.SOCKET: (
        *("connections_per_session", "connections_per_node", "frames_per_second"),
        *("messages_per_second", "protocol_errors_per_minute", "requests_held_bytes"),
    ),
    Bound.MACHINE: (),
}
"""The limits of each, by their names in `Limits`. A request with a tenant's key is a session of its
own, so the limits per session do not bind it; its tenant's do."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The credential, cost and limits of a call. They are checked before the endpoint is called.

    Args:
        right: the right that the credential must have. None: no right is needed.
        cost: the number that it counts as in `calls_per_second`. A call of the smallest kind takes
            about a millisecond of a core. Large answers cost more.
    """

    credential: Credential
    right: Right | None
    cost: int
    bound: Bound


@dataclass(frozen=True, slots=True)
class Protocol:
    """The properties that all routes of a protocol share.

    Args:
        name: the value of the metric label `protocol`.
        paths: the API's paths. All paths below them belong to it too, also unknown ones.
        error_shape: the JSON form of an error.
        rate_headers: the headers that report what is left of the caller's quotas. None: none.
        not_served: paths of the API that this server lacks, each with what to call instead. The
            first that matches counts.
    """

    name: str
    paths: tuple[str, ...] = ()
    error_shape: Literal["evenflow", "anthropic"] = "evenflow"
    rate_headers: Literal["openai", "anthropic"] | None = None
    not_served: Mapping[str, str] = field(default_factory=dict, compare=False)

    def advice_for(self, path: str) -> str | None:
        """The advice for a path that is not served. None: the API has no such path."""
        return next(
            (advice for root, advice in self.not_served.items() if _is_below(path, root)), None
        )


EVENFLOW = Protocol("evenflow")
OPENAI_CHAT = Protocol(
    "openai_chat",
    ("/v1/chat/completions", "/v1/models", "/v1/completions", "/v1/embeddings"),
    rate_headers="openai",
    not_served={
        "/v1/completions": "the legacy completions are not served here; use POST "
        "/v1/chat/completions, with the prompt as a message: "
        '`messages=[{"role": "user", "content": prompt}]`',
        "/v1/embeddings": "embeddings are not served here, and nothing that takes their place: "
        "this answers conversations, by POST /v1/chat/completions; ask a server of embeddings",
    },
)
OPENAI_RESPONSES = Protocol("openai_responses", ("/v1/responses",), rate_headers="openai")
ANTHROPIC = Protocol(
    "anthropic",
    ("/v1/messages",),
    error_shape="anthropic",
    rate_headers="anthropic",
    not_served={
        "/v1/messages/count_tokens": "tokens are not counted here: the model's server counts "
        "them, and each answer has the counts in `usage`",
        "/v1/messages/batches": "batches are not served here; send each message by POST "
        "/v1/messages",
        "/v1/messages": "of Anthropic's API only POST /v1/messages is served here",
    },
)
DURABLE_STREAMS = Protocol("durable_streams")
AI_SDK = Protocol("ai_sdk")
AG_UI = Protocol("ag_ui")
_WITH_PATHS = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC)
_OF_APIS = "/v1/"  # all paths of `_WITH_PATHS`


def protocol_at(path: str, headers: Container[str] = ()) -> Protocol:
    """The protocol of a path, also of an unknown one.

    Args:
        headers: the names of the request's headers. OpenAI's and Anthropic's APIs share the path
            of the models, where `ANTHROPIC_VERSION` decides.
    """
    if not path.startswith(_OF_APIS):
        return EVENFLOW
    if ANTHROPIC_VERSION in headers and _is_below(path, "/v1/models"):
        return ANTHROPIC
    for protocol in _WITH_PATHS:
        if any(_is_below(path, root) for root in protocol.paths):
            return protocol
    return EVENFLOW


def _is_below(path: str, root: str) -> bool:
    return f"{path}/".startswith(f"{root}/")


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    Args:
        path: `{name}` stands for one segment, `{name+}` for the rest of the path.
        terms: the credential, cost and limits of a call.
        edge_pattern: the pattern of CloudFront and the load balancer, with `*` for any characters.
            It is set if several routes share one.
        protocol: the protocol of its API.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    terms: Terms
    served_by: ServedBy = ServedBy.HANDLER
    edge_pattern: str = ""
    protocol: Protocol = EVENFLOW

    @property
    def public_path(self) -> str:
        """The path as documents write it: `{name}` for every variable part."""
        return _NAME.sub(r"{\1}", self.path)

    @property
    def pattern(self) -> str:
        """The pattern that matches the path at the edge."""
        return self.edge_pattern or _NAME.sub("*", self.path)

    def with_names(self, **names: str) -> str:
        """The path with values for its names."""
        return self.public_path.format(**names)

    def match(self, path: str) -> dict[str, str] | None:
        """The values of the names in `path`. None if the route doesn't match."""
        path_match = _expression(self.path).fullmatch(path)
        return None if path_match is None else path_match.groupdict()


@cache
def _expression(path: str) -> re.Pattern[str]:
    expression, end = "", 0
    for name in _NAME.finditer(path):
        expression += re.escape(path[end : name.start()])
        expression += f"(?P<{name[1]}>{'.+' if name[2] else '[^/]+'})"
        end = name.end()
    return re.compile(expression + re.escape(path[end:]), re.DOTALL)


_PUBLIC = Terms(Credential.NOTHING, None, 1, Bound.CALL)
_DOCUMENT = Terms(Credential.NOTHING, None, 3, Bound.CALL)
_MACHINE = Terms(Credential.OPERATOR, None, 1, Bound.MACHINE)
_OPENING = Terms(Credential.OPENER, None, 2, Bound.BODY)
_READ_SESSION = Terms(Credential.SESSION, Right.READ, 5, Bound.CALL)
_END_SESSION = Terms(Credential.SESSION, Right.CANCEL, 5, Bound.CALL)
_SHARE = Terms(Credential.SESSION, Right.WRITE, 2, Bound.BODY)
_SEND_MESSAGE = Terms(Credential.SESSION, Right.WRITE, 2, Bound.ANSWER)
_STOP = Terms(Credential.SESSION, Right.CANCEL, 1, Bound.CALL)
_SEND_RESULT = Terms(Credential.SESSION, Right.WRITE, 1, Bound.BODY)
_FOLLOW = Terms(Credential.READER, Right.READ, 1, Bound.STREAM)
_READ = Terms(Credential.READER, Right.READ, 1, Bound.CALL)
_GENERATE = Terms(Credential.SENDER, Right.WRITE, 2, Bound.ANSWER)
_LOOK_UP = Terms(Credential.SENDER, Right.READ, 1, Bound.CALL)
_LIST = Terms(Credential.SENDER, Right.READ, 5, Bound.CALL)
_STREAM = Terms(Credential.SENDER, Right.READ, 2, Bound.STREAM)
_REPORT = Terms(Credential.SENDER, Right.READ, 20, Bound.CALL)
_STOP_RESPONSE = Terms(Credential.SENDER, Right.CANCEL, 1, Bound.BODY)
_SOCKET = Terms(Credential.READER, Right.READ, 2, Bound.SOCKET)
_GENERATE_OVER_SOCKET = Terms(Credential.SENDER, Right.WRITE, 2, Bound.SOCKET)

OPEN_SESSION = Route("POST", "/session", _OPENING, ServedBy.SESSION_INIT)
_ONE_SESSION = "/session/*"
MESSAGES = Route("GET", "/session/{session_id}/messages", _READ_SESSION, edge_pattern=_ONE_SESSION)
END_SESSION = Route("DELETE", "/session/{session_id}", _END_SESSION, edge_pattern=_ONE_SESSION)
SHARE = Route("POST", "/session/{session_id}/share", _SHARE, edge_pattern=_ONE_SESSION)
POST_MESSAGE = Route("POST", "/chat/message", _SEND_MESSAGE)
EVENTS = Route("GET", "/chat/message/{response_id}/events", _FOLLOW)
CANCEL = Route("POST", "/chat/message/{response_id}/cancel", _STOP)
TOOL_RESULT = Route("POST", "/chat/message/{response_id}/tool-results", _SEND_RESULT)
PRESENCE = Route("GET", "/chat/message/{response_id}/presence", _FOLLOW)
ENTRIES = Route(
    "GET",
    "/chat/message/{response_id}/entries/{epoch}/{first}-{last}",
    _READ,
    edge_pattern="/chat/message/*/entries/*",
)
POLL = Route("GET", "/chat/message/{response_id}", _FOLLOW, ServedBy.POLL_RESPONSE)

USAGE = Route("GET", "/usage", _REPORT)

_OPENAI = "/v1/*"
COMPLETIONS = Route(
    "POST", "/v1/chat/completions", _GENERATE, edge_pattern=_OPENAI, protocol=OPENAI_CHAT
)
LIST_MODELS = Route("GET", "/v1/models", _LOOK_UP, edge_pattern=_OPENAI, protocol=OPENAI_CHAT)
GET_MODEL = Route(
    "GET", "/v1/models/{model+}", _LOOK_UP, edge_pattern=_OPENAI, protocol=OPENAI_CHAT
)
CREATE_RESPONSE = Route(
    "POST", "/v1/responses", _GENERATE, edge_pattern=_OPENAI, protocol=OPENAI_RESPONSES
)
RESPONSES_WEBSOCKET = Route(
    "GET", "/v1/responses", _GENERATE_OVER_SOCKET, edge_pattern=_OPENAI, protocol=OPENAI_RESPONSES
)
GET_RESPONSE = Route(
    "GET", "/v1/responses/{response_id}", _STREAM, edge_pattern=_OPENAI, protocol=OPENAI_RESPONSES
)
DELETE_RESPONSE = Route(
    "DELETE",
    "/v1/responses/{response_id}",
    _STOP_RESPONSE,
    edge_pattern=_OPENAI,
    protocol=OPENAI_RESPONSES,
)
CANCEL_RESPONSE = Route(
    "POST",
    "/v1/responses/{response_id}/cancel",
    _STOP_RESPONSE,
    edge_pattern=_OPENAI,
    protocol=OPENAI_RESPONSES,
)
INPUT_ITEMS = Route(
    "GET",
    "/v1/responses/{response_id}/input_items",
    _LIST,
    edge_pattern=_OPENAI,
    protocol=OPENAI_RESPONSES,
)

ANTHROPIC_MESSAGES = Route(
    "POST", "/v1/messages", _GENERATE, edge_pattern=_OPENAI, protocol=ANTHROPIC
)

STREAM = Route("GET", "/streams/{response_id}", _FOLLOW, protocol=DURABLE_STREAMS)

_AI_SDK_PATHS = "/api/chat*"
CHAT = Route("POST", "/api/chat", _GENERATE, edge_pattern=_AI_SDK_PATHS, protocol=AI_SDK)
CHAT_MESSAGES = Route(
    "GET", "/api/chat/{chat_id}", _LIST, edge_pattern=_AI_SDK_PATHS, protocol=AI_SDK
)
CHAT_STREAM = Route(
    "GET", "/api/chat/{chat_id}/stream", _STREAM, edge_pattern=_AI_SDK_PATHS, protocol=AI_SDK
)
CHAT_STOP = Route(
    "POST", "/api/chat/{chat_id}/stop", _STOP_RESPONSE, edge_pattern=_AI_SDK_PATHS, protocol=AI_SDK
)

_AG_UI_PATHS = "/agui*"
RUN = Route("POST", "/agui", _GENERATE, edge_pattern=_AG_UI_PATHS, protocol=AG_UI)
RUN_STOP = Route("POST", "/agui/stop", _STOP_RESPONSE, edge_pattern=_AG_UI_PATHS, protocol=AG_UI)

OPENAPI = Route("GET", "/openapi.json", _DOCUMENT, edge_pattern="/*api.json")
ASYNCAPI = Route("GET", "/asyncapi.json", _DOCUMENT, edge_pattern="/*api.json")

WEBSOCKET = Route("GET", "/ws", _SOCKET)
REALTIME = Route("GET", "/realtime", _SOCKET)
OPENAI_REALTIME = Route("GET", "/v1/realtime", _SOCKET, edge_pattern=_OPENAI)

INDEX = Route("GET", "/", _PUBLIC, ServedBy.PAGE)
ASSET = Route("GET", "/assets/{name}", _PUBLIC, ServedBy.MODULES)
CLIENT_MODULE = Route("GET", "/client.js", _PUBLIC, ServedBy.MODULES)
ELEMENT_MODULE = Route("GET", "/evenflow-chat.js", _PUBLIC, ServedBy.MODULES)

HEALTH = Route("GET", "/health", _MACHINE, ServedBy.MACHINE)
METRICS = Route("GET", "/metrics", _MACHINE, ServedBy.MACHINE)
DRAIN = Route("POST", "/drain", _MACHINE, ServedBy.MACHINE)
OPERATOR = Route("POST", "/operator", _MACHINE, ServedBy.MACHINE)

ROUTES = (
    *(OPEN_SESSION, MESSAGES, END_SESSION, SHARE),
    *(POST_MESSAGE, EVENTS, PRESENCE, ENTRIES, CANCEL, TOOL_RESULT, POLL),
    USAGE,
    *(WEBSOCKET, REALTIME, OPENAI_REALTIME),
    *(COMPLETIONS, LIST_MODELS, GET_MODEL),
    *(CREATE_RESPONSE, RESPONSES_WEBSOCKET, GET_RESPONSE, DELETE_RESPONSE),
    *(CANCEL_RESPONSE, INPUT_ITEMS),
    *(ANTHROPIC_MESSAGES, STREAM),
    *(CHAT, CHAT_MESSAGES, CHAT_STREAM, CHAT_STOP),
    *(RUN, RUN_STOP),
    *(OPENAPI, ASYNCAPI),
    *(INDEX, ASSET, CLIENT_MODULE, ELEMENT_MODULE),
    *(HEALTH, METRICS, DRAIN, OPERATOR),
)
"""In the order in which the edge tries them, which matters where two patterns match a path."""


def edge_patterns(*servers: ServedBy) -> tuple[str, ...]:
    """The patterns of the paths of these servers, each once."""
    return tuple(dict.fromkeys(route.pattern for server in servers for route in routes_of(server)))


def paths_of(*servers: ServedBy) -> frozenset[str]:
    """The paths of these servers, with `{name}` for variable parts."""
    return frozenset(route.path for server in servers for route in routes_of(server))


def routes_of(server: ServedBy) -> Iterable[Route]:
    """The routes of a server."""
    return (route for route in ROUTES if route.served_by is server)
