"""The public address, as a client without a browser calls it."""

from __future__ import annotations

import json
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import InvalidStatus
from websockets.http11 import Response
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from evenflow.functions.canary.reading import WrongAnswer
from evenflow.stream_core.http.routes import OPEN_SESSION, Route

_READ_BYTES = 65_536
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, read whole."""

    status: int
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        """The body.

        Raises:
            UnexpectedAnswer: it is no JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise UnexpectedAnswer(self, f"{self.status} with a body that is no JSON") from None

    def expect(self, status: int) -> HttpAnswer:
        """The same answer.

        Raises:
            WrongAnswer: it has another status.
        """
        if self.status != status:
            raise UnexpectedAnswer(self, f"{self.status}{_code(self.body)} instead of {status}")
        return self


class UnexpectedAnswer(WrongAnswer):
    """An answer has an unexpected status or shape."""

    def __init__(self, answer: HttpAnswer, message: str) -> None:
        super().__init__(message)
        self.answer = answer


class UnusableKey(WrongAnswer):
    """A key can't be sent: no header takes it. The message doesn't show it."""


class _NoRedirectConnection(ClientConnection):
    """A WebSocket that follows no redirect: no browser follows one."""

    def handshake(self, *arguments: Any, **named: Any) -> None:
        try:
            super().handshake(*arguments, **named)
        except InvalidStatus as error:
            answer = answer_of_handshake(error.response)
            if 300 <= answer.status < 400:
                where = answer.headers.get("Location")
                raise UnexpectedAnswer(answer, f"{answer.status} to {where}") from error
            raise


def answer_of_handshake(response: Response) -> HttpAnswer:
    """The answer to a handshake."""
    headers = Message()
    for name, value in response.headers.raw_items():
        headers[name] = value
    return HttpAnswer(response.status_code, headers, bytes(response.body or b""))


class StreamedAnswer:
    """The head of an answer, and the lines of its body as they come."""

    def __init__(self, answer: HTTPResponse) -> None:
        self.headers = answer.headers
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        """The lines, without their ends.

        Raises:
            IncompleteRead: the body was cut.
        """
        zipped = self.headers.get("Content-Encoding") == "gzip"
        unpacker = zlib.decompressobj(_GZIP) if zipped else None
        rest = b""
        while data := self._answer.read1(_READ_BYTES):
            rest += data if unpacker is None else unpacker.decompress(data)
            *lines, rest = rest.split(b"\n")
            yield from lines


class FrontDoor:
    """The address of a deployment. Each call has a connection of its own.

    Args:
        url: `https://host` or `http://host:port`, with a path if it is served below one.
        silence_seconds: how long a call may be silent.
        on_head: called with each answer when its head has come.

    Raises:
        ValueError: the URL is no such address.
    """

    def __init__(
        self,
        url: str,
        silence_seconds: float = 30.0,
        on_head: Callable[[HTTPResponse], None] = lambda _answer: None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} must be https://host or http://host:port")
        self.host = parts.netloc
        self.secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self._path}"
        self._silence_seconds = silence_seconds
        self._on_head = on_head

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """A call, whose answer is read whole."""
        with self._open(method, path, body, headers) as answer:
            return _whole(answer)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[StreamedAnswer]:
        """A call, whose body is read as it comes. Leaving cuts the connection.

        It may come compressed, as browsers accept it.

        Raises:
            UnexpectedAnswer: it is refused.
        """
        zipped = {"Accept-Encoding": "gzip"}
        with self._open(method, path, body, zipped | dict(headers or {})) as answer:
            if answer.status != 200:
                _whole(answer).expect(200)
            yield StreamedAnswer(answer)

    def post_session(self, tenant: str, key: str | None) -> HttpAnswer:
        """Open a session, and return the answer.

        Raises:
            WrongAnswer: it is refused.
            UnusableKey: no header takes the key.
        """
        body = {"tenant": tenant}
        return self.call(OPEN_SESSION.method, OPEN_SESSION.path, body, _bearer(key)).expect(201)

    def open_session(self, tenant: str = "public", key: str | None = None) -> Session:
        """A session of its own.

        Raises:
            WrongAnswer: it is refused.
        """
        opened = self.post_session(tenant, key).json
        return Session(self, opened["session_id"], opened["token"])

    def websocket(
        self, path: str, protocol: str, token: str, origin: str | None = None
    ) -> ClientConnection:
        """An open WebSocket, to be used as a context. As a browser, it sends no pings.

        Args:
            origin: of the page that opens it. None: there is no page.
        """
        return connect(
            f"{self.url.replace('http', 'ws', 1)}{path}",
            origin=None if origin is None else Origin(origin),
            subprotocols=[Subprotocol(protocol), Subprotocol(f"bearer.{token}")],
            open_timeout=self._silence_seconds,
            ping_interval=None,
            close_timeout=2,
            proxy=None,
            create_connection=_NoRedirectConnection,
        )

    def receive(self, websocket: ClientConnection) -> Any:
        """The next frame, as JSON.

        Raises:
            TimeoutError: nothing came.
        """
        return json.loads(websocket.recv(self._silence_seconds))

    @contextmanager
    def _open(
        self, method: str, path: str, body: object, headers: Mapping[str, str] | None
    ) -> Iterator[HTTPResponse]:
        sent = None if body is None else json.dumps(body).encode()
        of_body = {} if sent is None else {"Content-Type": "application/json"}
        with closing(self._connection()) as connection:
            # A body that is too large is refused, and cut, before all of it is sent.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, self._path + path, sent, of_body | dict(headers or {}))
            with closing(connection.getresponse()) as answer:
                self._on_head(answer)
                yield answer

    def _connection(self) -> HTTPConnection:
        if not self.secure:
            return HTTPConnection(self.host, timeout=self._silence_seconds)
        return HTTPSConnection(
            self.host, timeout=self._silence_seconds, context=ssl.create_default_context()
        )


@dataclass(frozen=True, slots=True)
class Session:
    """An open session. Its token is the key for every call."""

    front_door: FrontDoor
    session_id: str
    token: str

    @property
    def bearer(self) -> dict[str, str]:
        """The header with the session's token."""
        return _bearer(self.token)

    def call(self, route: Route, body: object = None, **names: str) -> HttpAnswer:
        """A call of a route with the token."""
        path = route.with_names(**names)
        return self.front_door.call(route.method, path, body, self.bearer)


def _whole(answer: HTTPResponse) -> HttpAnswer:
    return HttpAnswer(answer.status, answer.headers, answer.read())


def _bearer(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    if not key.isascii() or any(one.isspace() or not one.isprintable() for one in key):
        raise UnusableKey(
            "the key has a character that no header takes, such as a space or the end of a line"
        )
    return {"Authorization": f"Bearer {key}"}


def _code(body: bytes) -> str:
    """The code of Evenflow's errors, where the body is one."""
    try:
        return f" {json.loads(body)['error']['code']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return " (not in Evenflow's shape: somebody else answered)"
