"""Readers over a WebSocket: Evenflow's own, and socket.io's."""

import json
from array import array
from time import monotonic

import orjson
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from bench.client import HANDSHAKE_TIMEOUT_SECONDS, QUIET, until
from bench.event_streams import Piece
from bench.peers.judge import SOCKET_IO_TOKEN, Text, evenflow_texts, socket_io_texts
from bench.peers.readers import Question, Reader

GREETINGS = 2  # frames before the first of an answer, of both kinds


class Socket(WSListener):
    """One WebSocket of a reader."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._arrivals = array("d")
        self.ended = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, _transport: WSTransport, frame: WSFrame) -> None:
        self._arrivals.append(monotonic())
        self._frames.append(frame.get_payload_as_bytes())

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        self.ended = True

    @property
    def pieces(self) -> list[Piece]:
        return list(zip(self._arrivals, self._frames, strict=True))

    @property
    def heard(self) -> int:
        return len(self._frames)

    def ends_with(self, start: bytes) -> bool:
        """Whether a frame with this beginning is the last, or only heartbeats came after it."""
        return any(frame.startswith(start) for frame in self._frames[-3:])

    def find(self, start: bytes) -> bytes | None:
        """The first frame with this beginning, if it has come."""
        return next((frame for frame in self._frames if frame.startswith(start)), None)

    async def frame(self, start: bytes) -> bytes:
        """Likewise, awaited.

        Raises:
            ConnectionError: it did not come.
        """
        await until(
            lambda: self.ended or self.find(start) is not None, HANDSHAKE_TIMEOUT_SECONDS, 0.002
        )
        if (found := self.find(start)) is None:
            raise ConnectionError(f"no frame {start!r} came, but {self._frames[:2]}")
        return found

    def send(self, text: bytes | str) -> None:
        self.transport.send(WSMsgType.TEXT, text.encode() if isinstance(text, str) else text)


class SocketIoSocket(Socket):
    """Answers the heartbeat, too."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        super().on_ws_frame(transport, frame)
        if len(self._frames[-1]) == 1:
            self.send(b"3")


class SocketReader(Reader):
    """Reads frames of a WebSocket."""

    make_socket = Socket
    end: bytes  # how the last frame of an answer begins

    def __init__(self, url: str, question: Question, headers: dict[str, str]) -> None:
        super().__init__(question)
        self._url = url
        self._headers = headers
        self._sockets: list[Socket] = []

    async def _connect(self) -> Socket:
        socket = self.make_socket()
        await ws_connect(
            lambda: socket,
            self._url,
            extra_headers=self._headers,
            websocket_handshake_timeout=HANDSHAKE_TIMEOUT_SECONDS,
            logger_name=QUIET,
            use_aiofastnet=False,
            read_buffer_init_size=512,
        )
        if not hasattr(socket, "transport"):  # picows returns all the same
            raise ConnectionError("the server closed the connection within the handshake")
        self._sockets.append(socket)
        return socket

    def cut(self) -> None:
        for socket in self._sockets:
            if not socket.ended:
                socket.transport.disconnect(graceful=False)

    @property
    def reading(self) -> bool:
        return any(socket.heard > GREETINGS for socket in self._sockets)

    @property
    def done(self) -> bool:
        last = self._sockets[-1] if self._sockets else None
        return last is not None and (last.ended or last.ends_with(self.end))

    def _pieces(self) -> list[Piece]:
        return [piece for socket in self._sockets for piece in socket.pieces]


class EvenflowReader(SocketReader):
    """Evenflow's WebSocket, `evenflow.v1`."""

    end = b'{"type":"chat.response.completed"'

    async def begin(self) -> None:
        socket = await self._connect()
        await socket.frame(b'{"type":"session.ready"')
        self.asked = monotonic()
        socket.send(self._message)

    @property
    def _message(self) -> bytes:
        message = {"message_id": "m1", "payload": {"text": self.question.text}}
        return orjson.dumps({"type": "chat.message"} | message)

    async def come_back(self) -> None:
        start = self._sockets[0].find(b'{"type":"chat.response.start"')
        index = -1
        for _, raw in self._pieces():
            frame = orjson.loads(raw)
            if frame["type"] == "chat.response.delta":
                index = frame["index"]
        socket = await self._connect()
        await socket.frame(b'{"type":"session.ready"')
        if start is None:  # the same message again is the same answer
            socket.send(self._message)
        else:
            place = {"response_id": orjson.loads(start)["response_id"], "after": index}
            socket.send(orjson.dumps({"type": "response.resume"} | place))

    def texts(self) -> list[Text]:
        return list(evenflow_texts(self._pieces()))


class SocketIoReader(SocketReader):
    """socket.io's protocol over Engine.IO's WebSocket, as its client speaks it."""

    make_socket = SocketIoSocket
    end = SOCKET_IO_TOKEN + b'"[DONE]"'

    async def begin(self) -> None:
        socket = await self._connect()
        await socket.frame(b"0{")
        socket.send("40")
        await socket.frame(b"40{")
        self.asked = monotonic()
        socket.send("42" + json.dumps(["ask", self.question.request.decode()]))

    async def come_back(self) -> None:
        session = orjson.loads((await self._sockets[0].frame(b"40{"))[2:])
        tokens = [frame for _, frame in self._pieces() if frame.startswith(SOCKET_IO_TOKEN)]
        offset = orjson.loads(tokens[-1][2:])[-1] if tokens else None
        socket = await self._connect()
        await socket.frame(b"0{")
        socket.send("40" + json.dumps({"pid": session["pid"], "offset": offset}))
        await socket.frame(b"40{")

    def texts(self) -> list[Text]:
        return list(socket_io_texts(self._pieces()))
