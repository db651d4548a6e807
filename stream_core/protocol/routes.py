"""All HTTP paths, in one table: it routes, documents, and configures the edge in AWS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Literal

EDGE_KEY_HEADER = "x-evenflow-edge-key"
"""The header by which CloudFront shows the functions that a request came through it."""

EVENFLOW = "evenflow"
"""The protocol of routes of our own."""

_NAME = re.compile(r"\{(\w+)(\+?)\}")


class Origin(StrEnum):
    """Who answers a path in AWS. On one machine the handler answers all of them."""

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
    """Nobody in AWS: only the handler's own machine and its health checks use the path."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    Args:
        path: `{name}` stands for one segment, `{name+}` for the rest of the path.
        edge_pattern: what CloudFront and the load balancer match, with `*` for any characters.
            Given where several routes share one.
        protocol: whose API it is. Requests are counted by it.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    origin: Origin = Origin.HANDLER
    edge_pattern: str = ""
    protocol: str = EVENFLOW

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
        found = _expression(self.path).fullmatch(path)
        return None if found is None else found.groupdict()


@cache
def _expression(path: str) -> re.Pattern[str]:
    expression, end = "", 0
    for name in _NAME.finditer(path):
        expression += re.escape(path[end : name.start()])
        expression += f"(?P<{name[1]}>{'.+' if name[2] else '[^/]+'})"
        end = name.end()
    return re.compile(expression + re.escape(path[end:]), re.DOTALL)


OPEN_SESSION = Route("POST", "/session", Origin.SESSION_INIT)
_ONE_SESSION = "/session/*"
MESSAGES = Route("GET", "/session/{session_id}/messages", edge_pattern=_ONE_SESSION)
END_SESSION = Route("DELETE", "/session/{session_id}", edge_pattern=_ONE_SESSION)
SHARE = Route("POST", "/session/{session_id}/share", edge_pattern=_ONE_SESSION)
POST_MESSAGE = Route("POST", "/chat/message")
EVENTS = Route("GET", "/chat/message/{response_id}/events")
CANCEL = Route("POST", "/chat/message/{response_id}/cancel")
TOOL_RESULT = Route("POST", "/chat/message/{response_id}/tool-results")
PRESENCE = Route("GET", "/chat/message/{response_id}/presence")
ENTRIES = Route(
    "GET",
    "/chat/message/{response_id}/entries/{epoch}/{first}-{last}",
    edge_pattern="/chat/message/*/entries/*",
)
POLL = Route("GET", "/chat/message/{response_id}", Origin.POLL_RESPONSE)

USAGE = Route("GET", "/usage")

_OPENAI = "/v1/*"
_CHAT = "openai_chat"
COMPLETIONS = Route("POST", "/v1/chat/completions", edge_pattern=_OPENAI, protocol=_CHAT)
LIST_MODELS = Route("GET", "/v1/models", edge_pattern=_OPENAI, protocol=_CHAT)
GET_MODEL = Route("GET", "/v1/models/{model+}", edge_pattern=_OPENAI, protocol=_CHAT)
_RESPONSES = "openai_responses"
CREATE_RESPONSE = Route("POST", "/v1/responses", edge_pattern=_OPENAI, protocol=_RESPONSES)
RESPONSES_WEBSOCKET = Route("GET", "/v1/responses", edge_pattern=_OPENAI, protocol=_RESPONSES)
GET_RESPONSE = Route(
    "GET", "/v1/responses/{response_id}", edge_pattern=_OPENAI, protocol=_RESPONSES
)
DELETE_RESPONSE = Route(
    "DELETE", "/v1/responses/{response_id}", edge_pattern=_OPENAI, protocol=_RESPONSES
)
CANCEL_RESPONSE = Route(
    "POST", "/v1/responses/{response_id}/cancel", edge_pattern=_OPENAI, protocol=_RESPONSES
)
INPUT_ITEMS = Route(
    "GET", "/v1/responses/{response_id}/input_items", edge_pattern=_OPENAI, protocol=_RESPONSES
)

ANTHROPIC_MESSAGES = Route("POST", "/v1/messages", edge_pattern=_OPENAI, protocol="anthropic")

STREAM = Route("GET", "/streams/{response_id}", protocol="durable_streams")

_AI_SDK = "/api/chat*"
CHAT = Route("POST", "/api/chat", edge_pattern=_AI_SDK, protocol="ai_sdk")
CHAT_MESSAGES = Route("GET", "/api/chat/{chat_id}", edge_pattern=_AI_SDK, protocol="ai_sdk")
CHAT_STREAM = Route("GET", "/api/chat/{chat_id}/stream", edge_pattern=_AI_SDK, protocol="ai_sdk")
CHAT_STOP = Route("POST", "/api/chat/{chat_id}/stop", edge_pattern=_AI_SDK, protocol="ai_sdk")

_AG_UI = "/agui*"
RUN = Route("POST", "/agui", edge_pattern=_AG_UI, protocol="ag_ui")
RUN_STOP = Route("POST", "/agui/stop", edge_pattern=_AG_UI, protocol="ag_ui")

OPENAPI = Route("GET", "/openapi.json", edge_pattern="/*api.json")
ASYNCAPI = Route("GET", "/asyncapi.json", edge_pattern="/*api.json")

WEBSOCKET = Route("GET", "/ws")
REALTIME = Route("GET", "/realtime")
OPENAI_REALTIME = Route("GET", "/v1/realtime", edge_pattern=_OPENAI)

INDEX = Route("GET", "/", Origin.PAGE)
ASSET = Route("GET", "/assets/{name}", Origin.MODULES)
CLIENT_MODULE = Route("GET", "/client.js", Origin.MODULES)
ELEMENT_MODULE = Route("GET", "/evenflow-chat.js", Origin.MODULES)

HEALTH = Route("GET", "/health", Origin.MACHINE)
METRICS = Route("GET", "/metrics", Origin.MACHINE)
DRAIN = Route("POST", "/drain", Origin.MACHINE)

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
    *(HEALTH, METRICS, DRAIN),
)
"""In the order in which the edge tries them, which matters where two patterns match a path."""


def edge_patterns(*origins: Origin) -> tuple[str, ...]:
    """The patterns of these origins, each once."""
    return tuple(dict.fromkeys(route.pattern for origin in origins for route in routes_of(origin)))


def paths_of(*origins: Origin) -> frozenset[str]:
    """The paths of these origins, with `{name}` for variable parts."""
    return frozenset(route.path for origin in origins for route in routes_of(origin))


def routes_of(origin: Origin) -> Iterable[Route]:
    """The routes of an origin."""
    return (route for route in ROUTES if route.origin is origin)
