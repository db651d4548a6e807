"""Reads one answer over three transports, and compares them with the server's progress.

A model's silence must not count as a hop's. Three facts separate them:

- Polls from the answer's start return at once with all text so far: they show the server's
  progress. A piece that a stream brings long after a poll had it was held back.
- The server sends a reader one frame in an interval. Several at one moment were collected by a hop.
- Hops don't collect frames of a WebSocket. A stream that comes in fewer moments was collected.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.client import IncompleteRead
from threading import Event

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from evenflow.doctor.evidence import HopFaultFound, NotTested, Observation, observe
from evenflow.doctor.hop_faults import BUFFERING, CUT, IDLE
from evenflow.functions.canary.front_door import Session
from evenflow.functions.canary.protocols import STREAMED, WHOLE, read_streamed, read_whole
from evenflow.functions.canary.reading import CameAtOnce, Stopwatch, StreamCut, TimedAnswer
from evenflow.functions.canary.transports import V1, over_events, over_polls, over_websocket
from evenflow.stream_core.http.routes import EVENTS, POLL, WEBSOCKET

WEBSOCKET_CHECK, EVENTS_CHECK, POLL_CHECK = "WebSocket", "server-sent events", "long poll"
_POLL_EVERY_SECONDS = 0.2
# A poll that has news is answered at once.
_POLL_TIMEOUT_MS = 2_000
# A hop that collects pieces waits for kilobytes. Networks and busy machines delay less.
_HELD_SECONDS = 1.0
# Pieces within it came together: the shortest interval of a server is five times as long.
_MOMENT_SECONDS = 0.01
# Fewer pieces may come together by chance.
_FEWEST_PIECES = 8
# Below this share of the usual moments pieces were collected. Two at a time give a half.
_FEWEST_PART = 0.7
_ENDED = ("completed", "error", "cancelled")
_CUTS = (StreamCut, IncompleteRead, ConnectionClosed, ConnectionResetError)

Arrivals = Sequence[tuple[int, float]]
Read = Callable[[Stopwatch], TimedAnswer]


@dataclass
class AnswerPace:
    """How an answer grew at the server, in seconds of a stopwatch."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    snapshots: list[tuple[int, float]] = field(default_factory=list)
    """For each poll with news: its last index, and when it came."""
    moments_per_second: float = 0.0
    """Over the WebSocket. 0.0: not known."""
    is_known: Event = field(default_factory=Event)
    """Set when the answer was read, or can't be."""

    @property
    def spread_seconds(self) -> float:
        """Seconds from the first snapshot to the last."""
        return self.snapshots[-1][1] - self.snapshots[0][1] if self.snapshots else 0.0

    def longest_delay(self, arrivals: Arrivals) -> float:
        """The longest time between the server having a piece and its arrival."""
        delays = [
            arrived - next((at for last, at in self.snapshots if last >= index), arrived)
            for index, arrived in arrivals
        ]
        return max(delays, default=0.0)

    def poll(self, session: Session, response_id: str) -> None:
        """Poll to the answer's end."""
        path = POLL.with_names(response_id=response_id)
        path += f"?from_index=0&timeout_ms={_POLL_TIMEOUT_MS}"
        status, last_index = "", -1
        while status not in _ENDED:
            polled = session.front_door.call(POLL.method, path, None, session.bearer)
            body = polled.expect(200).json
            status = body["status"]
            if body["chunk_index"] > last_index:
                last_index = body["chunk_index"]
                self.snapshots.append((last_index, self.stopwatch.elapsed))
            time.sleep(_POLL_EVERY_SECONDS)


@dataclass(frozen=True, slots=True)
class ReadStream:
    """The pieces of a stream. `cut_seconds`: when it was cut. None: it was not."""

    arrivals: Arrivals
    cut_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """From the first piece to the last."""
        return self.arrivals[-1][1] - self.arrivals[0][1] if self.arrivals else 0.0

    @property
    def moments(self) -> int:
        """The number of moments at which pieces came."""
        gaps = zip(self.arrivals[1:], self.arrivals, strict=False)
        return 1 + sum(later - earlier > _MOMENT_SECONDS for (_, later), (_, earlier) in gaps)

    @property
    def moments_per_second(self) -> float:
        """0.0 if there were too few pieces, or all came at once."""
        is_enough = len(self.arrivals) >= _FEWEST_PIECES and self.seconds > _MOMENT_SECONDS
        return self.moments / self.seconds if is_enough else 0.0

    def description(self) -> str:
        """The pieces and their times, in words."""
        first, last = self.arrivals[0][1], self.arrivals[-1][1]
        return f"{len(self.arrivals)} pieces, the first after {first:.1f} s, the last {last:.1f} s"


def read_stream(read: Read) -> ReadStream:
    """Read a stream to its end, or to its cut.

    Raises:
        WrongAnswer, OSError: it does not begin, or the answer fails.
    """
    stopwatch = Stopwatch()
    try:
        read(stopwatch)
    except CameAtOnce:
        pass
    except _CUTS:
        return ReadStream(stopwatch.arrivals, stopwatch.elapsed)
    return ReadStream(stopwatch.arrivals)


def read_transports(session: Session, response_id: str, pace: AnswerPace) -> list[Observation]:
    """Read one answer over WebSocket, events and polls at once."""

    def start(read: Callable[[Session, str, Stopwatch], TimedAnswer]) -> Future[ReadStream]:
        return threads.submit(read_stream, partial(read, session, response_id))

    # Leaving the pool waits for all of them.
    with ThreadPoolExecutor(4) as threads:
        threads.submit(pace.poll, session, response_id)
        websocket, events = start(over_websocket), start(over_events)
        poll = threads.submit(over_polls, session, response_id, Stopwatch())
    if websocket.exception() is None:
        pace.moments_per_second = websocket.result().moments_per_second
    return [
        observe(WEBSOCKET_CHECK, lambda: judge_frames(websocket.result(), pace)),
        observe(EVENTS_CHECK, lambda: judge_frames(events.result(), pace)),
        observe(POLL_CHECK, lambda: f"the whole text after {poll.result().last_seconds:.1f} s"),
    ]


def judge_frames(stream: ReadStream, pace: AnswerPace) -> str:
    """Judge a stream of our own protocol: its pieces have indexes and intervals."""
    delay = pace.longest_delay(stream.arrivals)
    if delay > _HELD_SECONDS and stream.cut_seconds is None:
        raise HopFaultFound(BUFFERING, f"a piece came {delay:.1f} s after the server had it")
    return _judge_moments(stream, pace, pace.moments_per_second or math.inf)


def judge_chunks(stream: ReadStream, pace: AnswerPace) -> str:
    """Judge a stream of `/v1`: its pieces have neither."""
    return _judge_moments(stream, pace, pace.moments_per_second)


def _judge_moments(stream: ReadStream, pace: AnswerPace, usual_rate: float) -> str:
    """Judge whether pieces came together. `usual_rate`: moments a second without a hop."""
    if stream.cut_seconds is not None:
        raise HopFaultFound(CUT, f"cut after {stream.cut_seconds:.1f} s")
    pieces, moments, seconds = len(stream.arrivals), stream.moments, stream.seconds
    if moments == 1 and pace.spread_seconds > _HELD_SECONDS:
        seen = f"all came at once, which the server had over {pace.spread_seconds:.1f} s"
        raise HopFaultFound(BUFFERING, seen)
    if pieces < _FEWEST_PIECES:
        raise NotTested(f"{stream.description()}: too few to tell (--question asks for more)")
    if moments < _FEWEST_PART * pieces and moments < _FEWEST_PART * usual_rate * seconds:
        seen = f"{pieces} pieces came in {moments} moments of {seconds:.1f} s"
        raise HopFaultFound(BUFFERING, seen)
    return stream.description()


def read_completion(session: Session, question: str, pace: AnswerPace) -> str:
    """Stream an answer by OpenAI's API. Returns what was seen.

    Args:
        pace: of the same question's answer by our own protocol.
    """
    stream = read_stream(lambda stopwatch: read_streamed(STREAMED[0], session, question, stopwatch))
    pace.is_known.wait()
    return judge_chunks(stream, pace)


def read_whole_completion(session: Session, question: str) -> str:
    """Read a whole answer by OpenAI's API: the connection is silent while the model works."""
    stopwatch = Stopwatch()
    try:
        read_whole(WHOLE[0], session, question)
    except _CUTS as error:
        raise HopFaultFound(CUT, f"cut after {stopwatch.elapsed:.1f} s") from error
    return f"came after {stopwatch.elapsed:.1f} s"


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
