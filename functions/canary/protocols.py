"""An answer by each protocol that other clients speak."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evenflow.functions.canary.front_door import Session
from evenflow.functions.canary.reading import (
    Stopwatch,
    StreamCut,
    TimedAnswer,
    WrongAnswer,
    server_events,
)
from evenflow.stream_core.http.routes import (
    ANTHROPIC_MESSAGES,
    CHAT,
    COMPLETIONS,
    CREATE_RESPONSE,
    LIST_MODELS,
    RUN,
    Route,
)

_DONE = "[DONE]"
_MOST_TOKENS = 500
_FAILURES = ("error", "abort", "response.failed", "RUN_ERROR")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamedProtocol:
    """A call that streams its answer.

    Args:
        body: of the model's name and the question.
        text: the text in an event, "" where it has none.
        last: the type of the event that says that the answer is whole, or `[DONE]`.
    """

    name: str
    route: Route
    body: Callable[[str, str], Json]
    text: Callable[[Json], str]
    last: str


@dataclass(frozen=True, slots=True)
class WholeProtocol:
    """A call that answers with the whole text. `text` extracts it from the answer."""

    name: str
    route: Route
    body: Callable[[str, str], Json]
    text: Callable[[Json], str]


def model_name(session: Session) -> str:
    """The first of the public models."""
    name: str = session.call(LIST_MODELS).expect(200).json["data"][0]["id"]
    return name


def read_streamed(
    protocol: StreamedProtocol,
    session: Session,
    question: str,
    stopwatch: Stopwatch | None = None,
) -> TimedAnswer:
    """Ask, and read the stream to its end.

    Raises:
        WrongAnswer: it is refused, breaks off, or is no stream.
    """
    body, route = protocol.body(model_name(session), question), protocol.route
    stopwatch, texts = stopwatch or Stopwatch(), list[str]()
    front_door = session.front_door
    with front_door.stream(route.method, route.path, body, session.bearer) as answer:
        for event in server_events(answer):
            value = {} if event.data == _DONE else json.loads(event.data)
            if value.get("error") or value.get("type") in _FAILURES:
                raise WrongAnswer(f"the stream has an error: {event.data[:200]}")
            if text := protocol.text(value):
                texts.append(text)
                stopwatch.text_came()
            if protocol.last in {event.data, value.get("type")}:
                return stopwatch.ended("".join(texts)).streamed()
    raise StreamCut(f"the stream was cut: it has no {protocol.last}")


def read_whole(protocol: WholeProtocol, session: Session, question: str) -> TimedAnswer:
    """Ask, and wait for the answer.

    Raises:
        WrongAnswer: it is refused, or has no text.
    """
    body, route = protocol.body(model_name(session), question), protocol.route
    stopwatch = Stopwatch()
    answer = session.front_door.call(route.method, route.path, body, session.bearer).expect(200)
    text = protocol.text(answer.json)
    stopwatch.text_came()
    return stopwatch.ended(text)


def _user_messages(question: str) -> list[Json]:
    return [{"role": "user", "content": question}]


def _completion(model: str, question: str) -> Json:
    return {"model": model, "messages": _user_messages(question)}


def _response(model: str, question: str) -> Json:
    return {"model": model, "input": question}


def _message(model: str, question: str) -> Json:
    return {"model": model, "max_tokens": _MOST_TOKENS, "messages": _user_messages(question)}


def _chat(_model: str, question: str) -> Json:
    message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": question}]}
    return {"id": uuid.uuid4().hex, "trigger": "submit-message", "messages": [message]}


def _run(_model: str, question: str) -> Json:
    return {
        "threadId": uuid.uuid4().hex,
        "runId": uuid.uuid4().hex,
        "messages": [{"id": "u1", "role": "user", "content": question}],
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


def _streaming(body: Callable[[str, str], Json]) -> Callable[[str, str], Json]:
    return lambda model, question: {**body(model, question), "stream": True}


def _text_of_chunk(chunk: Json) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk.get("choices", ()))


def _delta_where(kind: str) -> Callable[[Json], str]:
    return lambda event: event["delta"] if event.get("type") == kind else ""


def _text_of_block(event: Json) -> str:
    delta = event.get("delta") or {}
    text: str = delta.get("text", "") if event.get("type") == "content_block_delta" else ""
    return text


def _text_of_response(body: Json) -> str:
    return "".join(
        part["text"]
        for item in body["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


STREAMED = (
    StreamedProtocol(
        "/v1/chat/completions, streamed",
        COMPLETIONS,
        _streaming(_completion),
        _text_of_chunk,
        _DONE,
    ),
    StreamedProtocol(
        "/v1/responses, streamed",
        CREATE_RESPONSE,
        _streaming(_response),
        _delta_where("response.output_text.delta"),
        "response.completed",
    ),
    StreamedProtocol(
        "/v1/messages, streamed",
        ANTHROPIC_MESSAGES,
        _streaming(_message),
        _text_of_block,
        "message_stop",
    ),
    StreamedProtocol("/api/chat", CHAT, _chat, _delta_where("text-delta"), _DONE),
    StreamedProtocol("/agui", RUN, _run, _delta_where("TEXT_MESSAGE_CONTENT"), "RUN_FINISHED"),
)
WHOLE = (
    WholeProtocol(
        "/v1/chat/completions, whole",
        COMPLETIONS,
        _completion,
        lambda body: str(body["choices"][0]["message"]["content"]),
    ),
    WholeProtocol("/v1/responses, whole", CREATE_RESPONSE, _response, _text_of_response),
    WholeProtocol(
        "/v1/messages, whole",
        ANTHROPIC_MESSAGES,
        _message,
        lambda body: "".join(block.get("text", "") for block in body["content"]),
    ),
)
