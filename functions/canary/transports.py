"""One response over each transport."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evenflow.functions.canary.front_door import Session
from evenflow.functions.canary.reading import (
    Frame,
    LogText,
    Stopwatch,
    StreamCut,
    TimedAnswer,
    WrongAnswer,
    server_events,
)
from evenflow.stream_core.http.routes import (
    EVENTS,
    POLL,
    POST_MESSAGE,
    REALTIME,
    STREAM,
    WEBSOCKET,
)

V1, COMPACT, REALTIME_V1 = "evenflow.v1", "evenflow.v1.compact", "evenflow.realtime.v1"


@dataclass(frozen=True, slots=True)
class Transport:
    """One transport of a response.

    Args:
        name: in the table.
        read: reads the response with this id to its end.
        look_at: what to look at if it fails.
    """

    name: str
    read: Callable[[Session, str, Stopwatch], TimedAnswer]
    look_at: str


def ask(session: Session, question: str) -> str:
    """Send a session's first message. Returns the id of its response.

    Raises:
        WrongAnswer: it is not accepted.
    """
    body = {
        "message_id": "m1",
        "previous_message_id": None,
        "payload": {"text": question},
    }
    response_id: str = session.call(POST_MESSAGE, body).expect(202).json["response_id"]
    return response_id


def over_websocket(session: Session, response_id: str, stopwatch: Stopwatch) -> TimedAnswer:
    """Over `/ws`, in JSON objects."""
    resume = {"type": "response.resume", "response_id": response_id, "after": -1}
    return _over_socket(session, WEBSOCKET.path, V1, resume, stopwatch)


def over_compact_websocket(session: Session, response_id: str, stopwatch: Stopwatch) -> TimedAnswer:
    """Over `/ws`, with deltas as arrays."""
    resume = {"type": "response.resume", "response_id": response_id, "after": -1}
    return _over_socket(session, WEBSOCKET.path, COMPACT, resume, stopwatch)


def over_realtime(session: Session, response_id: str, stopwatch: Stopwatch) -> TimedAnswer:
    """Over `/realtime`."""
    resume = {"type": "resume", "response_id": response_id, "after": -1}
    return _over_socket(session, REALTIME.path, REALTIME_V1, resume, stopwatch)


def over_events(session: Session, response_id: str, stopwatch: Stopwatch) -> TimedAnswer:
    """Over server-sent events."""
    return _over_event_stream(
        session, EVENTS.with_names(response_id=response_id), stopwatch, _frame_of_event
    )


def over_streams(session: Session, response_id: str, stopwatch: Stopwatch) -> TimedAnswer:
    """Over `/streams`, the Durable Streams protocol, live."""
    path = STREAM.with_names(response_id=response_id)
    return _over_event_stream(
        session, f"{path}?offset=-1&live=sse", stopwatch, _frames_of_durable_event
    )


def over_polls(session: Session, response_id: str, stopwatch: Stopwatch) -> TimedAnswer:
    """By long polls."""
    path, next_index, epoch = POLL.with_names(response_id=response_id), 0, 1
    while True:
        query = f"?from_index={next_index}&epoch={epoch}&timeout_ms=10000"
        polled = session.front_door.call(POLL.method, path + query, None, session.bearer)
        body = polled.expect(200).json
        next_index, epoch = body["metadata"]["next_index"], body["metadata"]["epoch"]
        if body["new_text"]:
            stopwatch.text_came()
        if "full_text" in body:
            return _polled(body, stopwatch)


def _polled(body: Frame, stopwatch: Stopwatch) -> TimedAnswer:
    if body["status"] != "completed" or body["metadata"]["degraded"]:
        raise WrongAnswer(f"the answer ended with {body['status']}")
    return stopwatch.ended(body["full_text"])


TRANSPORTS = (
    Transport(
        "WebSocket v1",
        over_websocket,
        "CloudFront's behavior of /ws and its origin request policy (it must pass Upgrade and "
        "Sec-WebSocket-*), the load balancer's rule for it, and its idle timeout",
    ),
    Transport(
        "WebSocket v1 compact",
        over_compact_websocket,
        "as for WebSocket v1; where only this fails, the handlers' log",
    ),
    Transport(
        "realtime", over_realtime, "the behavior and the rule of /realtime, as for WebSocket v1"
    ),
    Transport(
        "server-sent events",
        over_events,
        "whatever buffers, compresses or caches text/event-stream on the way: it must pass "
        "Cache-Control: no-transform and X-Accel-Buffering: no",
    ),
    Transport(
        "long poll",
        over_polls,
        "the function poll_response (its log, its throttle, its right to the table), and the HTTP "
        "API's route",
    ),
    Transport(
        "/streams",
        over_streams,
        "the behavior and the rule of /streams/*, else as for server-sent events",
    ),
)


def _over_socket(
    session: Session, path: str, protocol: str, resume: Frame, stopwatch: Stopwatch
) -> TimedAnswer:
    front_door, log = session.front_door, LogText()
    with front_door.websocket(path, protocol, session.token) as socket:
        if socket.subprotocol != protocol:
            raise WrongAnswer(f"the subprotocol is {socket.subprotocol}, not {protocol}")
        socket.send(json.dumps(resume))
        while not log.ended:
            log.take(_frame_of_socket(front_door.receive(socket)), stopwatch)
    return stopwatch.ended(log.text).streamed()


def _frame_of_socket(received: Any) -> Frame:
    """A frame of any WebSocket, as `evenflow.v1` has it."""
    if isinstance(received, list):
        _, index, payload, *_ = received
        kind = "chat.response.delta" if isinstance(payload, str) else "chat.response.event"
        return {"type": kind, "index": index, "delta": payload}
    match received["type"]:
        case "token":
            return {
                "type": "chat.response.delta",
                "index": received["index"],
                "delta": received["text"],
            }
        case "restarted":
            return {**received, "type": "chat.response.restarted"}
        case "final":
            return {**received, "type": "chat.response.completed"}
    frame: Frame = received
    return frame


def _over_event_stream(
    session: Session,
    path: str,
    stopwatch: Stopwatch,
    frames: Callable[[str, str], Iterator[Frame]],
) -> TimedAnswer:
    log = LogText()
    with session.front_door.stream("GET", path, None, session.bearer) as answer:
        for event in server_events(answer):
            for frame in frames(event.kind, event.data):
                log.take(frame, stopwatch)
            if log.ended:
                return stopwatch.ended(log.text).streamed()
    raise StreamCut("the stream was cut before the answer's end")


def _frame_of_event(_kind: str, data: str) -> Iterator[Frame]:
    yield json.loads(data)


def _frames_of_durable_event(kind: str, data: str) -> Iterator[Frame]:
    if kind == "data":
        yield from json.loads(data)
