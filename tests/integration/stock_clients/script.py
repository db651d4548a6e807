"""What the scripted upstream answers.

An entry has a step for each turn, or for each try of a turn; the last one stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

SILENCE_SECONDS = 1.0
"""Several heartbeats of the server under test."""

LONG_SILENCE_SECONDS = 16.0
"""More than the 15 s after which a server with the defaults says that it is there."""


@dataclass(frozen=True)
class Call:
    """A call of a tool: of the first that was offered, where `name` is empty."""

    id: str
    name: str
    arguments: str

    def whole(self) -> dict[str, Any]:
        """As a message has it."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }

    def pieces(self) -> Iterator[dict[str, Any]]:
        """As a stream has it: what is called, then the arguments in two pieces."""
        half = len(self.arguments) // 2
        yield self.whole() | {"function": {"name": self.name, "arguments": ""}}
        for part in (self.arguments[:half], self.arguments[half:]):
            yield {"function": {"arguments": part}}


_USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 12,
    "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 20},
    "completion_tokens_details": {"reasoning_tokens": 7},
}
_TEXT = ("A train ", "enters ", "a tunnel: ", "Zug 🚆, ", "поезд.")


@dataclass(frozen=True)
class Answer:
    """An answer. `json` stands in the place of the rest where a form was asked for, and `calls`
    only where tools were offered; `before` and `within` are the seconds of silence before it and in
    its middle. One that `breaks` has no end: its connection is lost.
    """

    text: tuple[str, ...] = _TEXT
    json: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    refusal: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    finish_reason: str = "stop"
    before: float = 0
    within: float = 0
    breaks: bool = False
    usage: dict[str, Any] = field(default_factory=lambda: _USAGE)

    def to(self, body: dict[str, Any]) -> Answer:
        """The answer to this request."""
        if (
            body.get("response_format", {}).get("type") in ("json_object", "json_schema")
            and self.json
        ):
            return replace(self, text=self.json, calls=())
        tools = body.get("tools")
        if not tools or not self.calls:
            return replace(self, calls=())
        named = (
            replace(call, name=call.name or tools[0]["function"]["name"]) for call in self.calls
        )
        return replace(self, calls=tuple(named), finish_reason="tool_calls")

    def told_logprobs(
        self, body: dict[str, Any], piece: str | None = None
    ) -> dict[str, Any] | None:
        """Those of a piece, or of the whole text, where they were asked for."""
        if not body.get("logprobs"):
            return None
        pieces = self.text if piece is None else (piece,)
        return {
            "content": [
                {"token": each, "logprob": -0.5, "bytes": None, "top_logprobs": []}
                for each in pieces
            ]
        }


@dataclass(frozen=True)
class Refused:
    """An error in the place of an answer. Requests with at most `above` messages are answered."""

    status: int
    code: str
    message: str
    type: str = "invalid_request_error"
    headers: dict[str, str] = field(default_factory=dict)
    above: int = 0

    def error(self) -> dict[str, Any]:
        """As OpenAI says it."""
        return {"message": self.message, "type": self.type, "param": None, "code": self.code}


_WEATHER = Call("call_abc123", "get_weather", '{"city": "Zürich"}')
_TIME = Call("call_def456", "get_time", '{"city": "Oslo"}')
_PERSON = ('{"name": "Ada ', 'Lovelace", ', '"age": 36}')
_PERSON_BY_TOOL = Call("call_p1", "", "".join(_PERSON))
# Shorter than a heartbeat: what is asked next waits for it, and is to be refused with a status.
_SOON = {"Retry-After": "1", "retry-after-ms": "50"}
_TOO_LONG = Refused(
    400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"
)
_BUSY = Refused(429, "rate_limit_exceeded", "Rate limit reached", "requests", _SOON)

SCRIPT: dict[str, tuple[Answer | Refused, ...]] = {
    "text": (Answer(),),
    "reasoning": (Answer(reasoning=("Trains, ", "tunnels … ", "I see. ")),),
    "refusal": (Answer(text=(), refusal=("I cannot ", "help ", "with that.")),),
    "filtered": (Answer(text=_TEXT[:2], finish_reason="content_filter"),),
    "cut": (Answer(finish_reason="length"),),
    "tools": (
        Answer(text=(), calls=(_WEATHER, _TIME)),
        Answer(text=("Sunny in Zürich, ", "and noon in Oslo.")),
    ),
    "first-tool": (
        Answer(text=(), calls=(replace(_WEATHER, name=""),)),
        Answer(text=("Sunny ", "in Zürich.")),
    ),
    "person": (Answer(text=(), json=_PERSON, calls=(_PERSON_BY_TOOL,)),),
    "weather": (Answer(text=(), calls=(_WEATHER,)), Answer(text=("Sunny ", "in Zürich."))),
    "turns": (Answer(), Answer(text=("The second ", "answer."))),
    "silence-first": (Answer(before=SILENCE_SECONDS),),
    "silence-within": (Answer(within=SILENCE_SECONDS),),
    "thinking": (
        Answer(
            before=SILENCE_SECONDS, within=SILENCE_SECONDS, reasoning=("Trains, ", "tunnels … ")
        ),
    ),
    "long-silence-first": (Answer(before=LONG_SILENCE_SECONDS),),
    "long-silence-within": (Answer(within=LONG_SILENCE_SECONDS),),
    "begun-again": (
        Answer(text=("The first ", "words"), breaks=True),
        Answer(text=("Other ", "words.")),
    ),
    "busy-once": (_BUSY, Answer()),
    "busy": (_BUSY,),
    "overloaded": (Refused(503, "overloaded", "Overloaded", "server_error", {"Retry-After": "1"}),),
    "no-quota": (
        Refused(429, "insufficient_quota", "You exceeded your current quota", "insufficient_quota"),
    ),
    "too-long": (_TOO_LONG,),
    "too-long-above-four": (replace(_TOO_LONG, above=4),),
    "policy": (
        Refused(400, "content_policy_violation", "Your request was rejected by our safety system"),
    ),
    "wrong": (Refused(400, "invalid_value", "Invalid value for 'temperature'"),),
}
