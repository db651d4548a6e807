"""Keeps connections silent, to see whether a hop ends them and after how long."""

from __future__ import annotations

import json
from http.client import IncompleteRead

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from evenflow.doctor.evidence import HopFaultFound
from evenflow.doctor.hop_faults import CUT, IDLE
from evenflow.functions.canary.front_door import Session
from evenflow.functions.canary.reading import Stopwatch
from evenflow.functions.canary.transports import V1
from evenflow.stream_core.http.routes import EVENTS, POLL, WEBSOCKET

# Below the 60 s that the server waits for a model's next sign of life.
_LONGEST_GAP_SECONDS = 50.0
# The longest wait of a poll in AWS.
_LONGEST_POLL_SECONDS = 25.0
_PONG_SECONDS = 10.0
# If bytes came within this last share of the time, a stream didn't end for silence.
_LATELY = 0.2


def silent_question(seconds: float) -> str:
    """A question to the demo model, with `seconds` of silence in the answer."""
    gaps = 1 + int(seconds / _LONGEST_GAP_SECONDS)
    return f"#demo tokens={gaps + 1} gap_ms={1000 * seconds / gaps:.0f}"


def keep_websocket(session: Session, seconds: float) -> str:
    """Keep a WebSocket open and send nothing, as a page does between questions."""
    stopwatch = Stopwatch()
    with session.front_door.websocket(WEBSOCKET.path, V1, session.token) as socket:
        try:
            while (remaining := seconds - stopwatch.elapsed) > 0:
                _receive(socket, remaining)
            socket.send(json.dumps({"type": "ping"}))
            while (frame := _receive(socket, _PONG_SECONDS)) and frame["type"] != "pong":
                pass
        except ConnectionClosed as error:
            seen = f"cut after {stopwatch.elapsed:.1f} s without a frame"
            raise HopFaultFound(IDLE, seen) from error
    if not frame:
        raise HopFaultFound(IDLE, f"dead without a word after {seconds:.0f} s: no pong came")
    return f"open after {seconds:.0f} s without a frame"


def _receive(socket: ClientConnection, seconds: float) -> dict[str, object]:
    """The next frame. Empty if none comes in time."""
    try:
        frame: dict[str, object] = json.loads(socket.recv(seconds))
    except TimeoutError:
        return {}
    return frame


def keep_events(session: Session, response_id: str, seconds: float) -> str:
    """Read the events of an answer that is silent."""
    path = EVENTS.with_names(response_id=response_id)
    stopwatch, last_at, text = Stopwatch(), 0.0, b""
    try:
        with session.front_door.stream("GET", path, None, session.bearer) as answer:
            for line in answer:
                last_at, text = stopwatch.elapsed, line or text
                if b"chat.response.completed" in line:
                    return f"open after {seconds:.0f} s with heartbeats alone"
    except IncompleteRead:
        pass
    elapsed = stopwatch.elapsed
    silence = elapsed - last_at
    seen = f"cut after {elapsed:.1f} s, {silence:.1f} s after the last byte"
    raise HopFaultFound(IDLE if silence > _LATELY * elapsed else CUT, seen)


def keep_poll(session: Session, response_id: str, seconds: float) -> str:
    """Poll for text that doesn't come."""
    patience = min(seconds, _LONGEST_POLL_SECONDS)
    path = POLL.with_names(response_id=response_id)
    first = session.front_door.call(POLL.method, path, None, session.bearer).expect(200)
    query = f"?from_index={first.json['metadata']['next_index']}&timeout_ms={1000 * patience:.0f}"
    stopwatch = Stopwatch()
    session.front_door.call(POLL.method, path + query, None, session.bearer).expect(200)
    return f"answered after {stopwatch.elapsed:.1f} s"
