"""A reader's turn over a WebSocket, in either subprotocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson
from picows import (
    WSError,
    WSFrame,
    WSHandshakeError,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_connect,
)

from tests.chaos.answer_check import Kind
from tests.chaos.behaviour import Transport
from tests.chaos.outcome import Cause, Outcome
from tests.chaos.session import ChaosSession, parsed

if TYPE_CHECKING:
    from tests.chaos.reader import Reader

_QUIET = logging.LoggerAdapter(
    logging.getLogger("chaos.websocket")
)  # picows makes a logger per connection otherwise
_HANDSHAKE_SECONDS = 10.0
_SILENCE_SECONDS = 15.0
_ACK_SECONDS = 2.0
_REPLAY_SECONDS = (0.5, 4.0)
_STOPS_READING_EVERY, _STOPS_READING_FOR = (3.0, 6.0), (5.0, 12.0)
_NAMES = {Transport.V1: "evenflow.v1", Transport.COMPACT: "evenflow.v1.compact"}
_GONE = {"causal_violation", "response_expired", "response_not_found"}
# A message or a resume that was refused for now.
_LATER = {
    "draining", "queue_full", "rate_limited", "response_elsewhere", "response_readers",
    "session_contended", "session_in_flight", "store_behind", "store_unavailable",
    "tenant_in_flight",
}  # fmt: skip


async def open_websocket(
    session: ChaosSession, protocol: str, listener: WSListener
) -> Outcome | None:
    """Open a WebSocket with the session's token and cookie; returns what went wrong."""
    try:
        transport, _ = await ws_connect(
            lambda: listener,
            session.ws_url,
            extra_headers={**session.headers, "Sec-WebSocket-Protocol": protocol},
            websocket_handshake_timeout=_HANDSHAKE_SECONDS,
            logger_name=_QUIET,
            use_aiofastnet=False,
            read_buffer_init_size=512,
        )
    except WSHandshakeError as refused:
        return _refusal(session, refused)
    except (OSError, TimeoutError, ValueError, WSError):
        return Outcome(Cause.CUT)
    session.cookie.take(transport.response.headers.get("Set-Cookie"))
    return None


def _refusal(session: ChaosSession, refused: WSHandshakeError) -> Outcome:
    if refused.response is None:
        return Outcome(Cause.CUT)
    headers = refused.response.headers
    error = parsed(refused.raw_body or b"", int(refused.response.status)).get("error", {})
    session.cookie.take(headers.get("Set-Cookie"))
    retry_after = headers.get("Retry-After")
    return Outcome(
        Cause.REFUSED, float(retry_after) if retry_after else None, code=error.get("code", "")
    )


async def read(reader: Reader) -> Outcome:
    """Connect, ask or resume, and read until the connection ends or the client wants another
    one.
    """
    turn = _Turn(reader)
    failed = await open_websocket(reader.session, _NAMES[reader.transport], turn)
    if failed is not None:
        return failed
    try:
        return await turn.begin(reader.session.cookie.node_id)
    finally:
        turn.end()


class _Turn(WSListener):
    """One connection."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._check = reader.check
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[Outcome] = self._loop.create_future()
        self._transport: WSTransport
        self._name = f"{reader.transport}#{id(self) & 0xFFFF:04x}"
        self._node_id = ""
        self._stream: int | None = None
        self._slot_at: float | None = None
        self._progressed = False
        self._replays = False
        self._heard_at = self._acked_at = monotonic()
        self._timers: list[asyncio.TimerHandle] = []

    # -- the turn ----------------------------------------------------------------------------------

    async def begin(self, node_id: str) -> Outcome:
        """Say what we want, and wait for the end."""
        self._node_id = node_id
        self._name = f"{self._name}@{node_id[:4]}"
        behaviour = self._reader.behaviour
        self._say()
        if behaviour.moves_every is not None:
            self._after(behaviour.moves_every, lambda: self._finish(Cause.OWN))
        if behaviour.slow:
            self._after(self._reader.random.uniform(*_STOPS_READING_EVERY), self._stop_reading)
        else:
            self._after(_SILENCE_SECONDS, self._listen_for_silence)
        return await self._over

    def end(self) -> None:
        """Leave without a word, as a client does that loses its network."""
        for timer in self._timers:
            timer.cancel()
        if not self._over.done():
            self._over.cancel()
        self._transport.disconnect(False)

    def _say(self) -> None:
        answer, check = self._reader.answer, self._check
        if answer.response_id is None:
            self._ask()
            return
        resume = {"type": "response.resume", "response_id": answer.response_id, "after": check.last}
        self._send({**resume, "epoch": check.epoch})

    def _ask(self) -> None:
        self._send({"type": "chat.message", **self._reader.answer.message})

    def _replay_once(self) -> None:
        # Not before the start has come: until then it would be a second wish for the same text.
        if self._reader.behaviour.replays and self._reader.asks and not self._replays:
            self._replays = True
            self._after(self._reader.random.uniform(*_REPLAY_SECONDS), self._ask)

    def _send(self, frame: dict[str, Any]) -> None:
        if not self._over.done():
            self._check.note(self._name, ("sent", frame))
            self._transport.send(WSMsgType.TEXT, orjson.dumps(frame))

    def _after(self, seconds: float, act: Any) -> None:
        self._timers.append(self._loop.call_later(seconds, act))

    def _finish(self, cause: Cause, wait: float | None = None) -> None:
        if not self._over.done():
            self._over.set_result(Outcome(cause, wait, self._progressed))

    def _listen_for_silence(self) -> None:
        silent = monotonic() - self._heard_at
        if silent >= _SILENCE_SECONDS:
            self._finish(Cause.SILENCE)
        else:
            self._after(_SILENCE_SECONDS - silent, self._listen_for_silence)

    def _stop_reading(self) -> None:
        if not self._over.done():
            self._transport.underlying_transport.pause_reading()
            self._after(self._reader.random.uniform(*_STOPS_READING_FOR), self._read_again)

    def _read_again(self) -> None:
        if not self._over.done():
            self._transport.underlying_transport.resume_reading()
            self._after(self._reader.random.uniform(*_STOPS_READING_EVERY), self._stop_reading)

    # -- what picows calls -------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if self._over.done():
            return
        if frame.msg_type == WSMsgType.TEXT:
            self._heard_at = monotonic()
            self._take_text(frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.CLOSE:
            code, reason = frame.get_close_code(), frame.get_close_message()
            self._check.note(self._name, ("closed", code, reason))
            self._reader.answer.window.closes[int(code.value)] += 1
            transport.disconnect(False)

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        if self._slot_at is not None:
            self._finish(Cause.ASKED, max(0.0, self._slot_at - monotonic()))
        else:
            self._finish(Cause.CUT)

    # -- frames ------------------------------------------------------------------------------------

    def _take_text(self, data: bytes) -> None:
        try:
            self._take(orjson.loads(data))
        except (orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
            self._check.problem(
                Kind.PROTOCOL, f"a frame that can't be understood ({error!r}): {data[:300]!r}"
            )

    def _take(self, frame: Any) -> None:
        self._check.note(self._name, frame)
        if isinstance(frame, list):
            stream, index, text, *first = frame
            if stream != self._stream:
                self._check.problem(
                    Kind.PROTOCOL, f"a delta of stream {stream}, mine is {self._stream}"
                )
            self._check.delta(first[0] if first else index, index, text)
            self._had_text()
        elif (
            frame["type"] == "chat.response.delta"
            and frame["response_id"] == self._reader.answer.response_id
        ):
            self._check.take(frame)
            self._had_text()
        elif frame["type"].startswith("chat.response.") or frame["type"] == "lag":
            self._take_of_answer(frame)
        else:
            self._take_other(frame)

    def _had_text(self) -> None:
        reader = self._reader
        self._progressed = True
        reader.arrived()
        reader.progressed()
        if reader.behaviour.acknowledges and self._heard_at - self._acked_at > _ACK_SECONDS:
            self._acked_at = self._heard_at
            ack = {
                "type": "response.ack",
                "response_id": reader.answer.response_id,
                "index": self._check.last,
            }
            self._transport.send(WSMsgType.TEXT, orjson.dumps(ack))

    def _take_of_answer(self, frame: dict[str, Any]) -> None:
        reader = self._reader
        answer = reader.answer
        if frame["type"] == "chat.response.start" and frame["message_id"] == answer.message_id:
            owns = frame.get("via", "owner") == "owner"
            answer.window.vias[frame.get("via", "owner")] += 1
            answer.accepted(self._check, frame["response_id"], self._node_id, is_owner=owns)
            self._stream = frame.get("stream")
            reader.arrived()
            self._replay_once()
        if frame["response_id"] != answer.response_id:
            self._check.problem(Kind.PROTOCOL, f"a frame of another response: {frame}")
        self._check.take(frame)
        if frame["type"] == "lag":
            answer.window.lags += 1
        if self._check.ended:
            self._finish(Cause.ENDED)

    def _take_other(self, frame: dict[str, Any]) -> None:
        kind = frame["type"]
        if kind == "reconnect":
            wait = frame["after_ms"] / 1000
            self._slot_at = monotonic() + wait
            self._after(wait, lambda: self._finish(Cause.ASKED, 0.0))
        elif kind in ("error", "throttle", "system.busy"):
            # A message that is sent again while it is read: to resume now would be to ask for what
            # is on its way.
            again = self._ask if frame.get("message_id") else self._say
            self._refused(
                frame["error"],
                frame.get("retry_after_ms") or frame["error"].get("retry_after_ms") or 0,
                again,
            )

    def _refused(
        self, error: dict[str, Any], retry_after_ms: float, again: Callable[[], None]
    ) -> None:
        answer, code = self._reader.answer, error["code"]
        answer.window.refusals[code] += 1
        if code == "response_elsewhere" and "response_id" in error:
            answer.accepted(self._check, error["response_id"], "", is_owner=False)
            self._say()
        elif code == "draining":
            self._finish(Cause.REFUSED, retry_after_ms / 1000)
        elif code in _LATER:
            self._after(retry_after_ms / 1000 + self._reader.random.uniform(0, 0.5), again)
        elif (
            error.get("param") != "index"
        ):  # an acknowledgement may name what was replaced meanwhile
            self._check.problem(Kind.LOST if code in _GONE else Kind.PROTOCOL, f"refused: {error}")
            self._finish(Cause.REFUSED, 1.0)
