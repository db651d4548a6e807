"""The public address, as a client without a browser calls it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from evenflow.functions.canary.reading import WrongAnswer
from evenflow.stream_core.protocol.routes import OPEN_SESSION, Route


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
            WrongAnswer: it is no JSON.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            raise WrongAnswer(f"{self.status} with a body that is no JSON") from None

    def expect(self, status: int) -> HttpAnswer:
        """The same answer.

        Raises:
            WrongAnswer: it has another status.
        """
        if self.status != status:
            raise WrongAnswer(f"{self.status}{_code(self.body)} instead of {status}")
        return self


class FrontDoor:
    """The address of a deployment. Each call has a connection of its own.

    Args:
        url: `https://host` or `http://host:port`.
        silence_seconds: how long a call may be silent.

    Raises:
        ValueError: the URL is no such address.
    """

    def __init__(self, url: str, silence_seconds: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"{url!r} must be https://host or http://host:port")
        self.host = parts.netloc
        self.secure = parts.scheme == "https"
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._silence_seconds = silence_seconds

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
    ) -> Iterator[HTTPResponse]:
        """A call, whose body is read as it comes. Leaving cuts the connection.

        Raises:
            WrongAnswer: it is refused.
        """
        with self._open(method, path, body, headers) as answer:
            if answer.status != 200:
                _whole(answer).expect(200)
            yield answer

    def post_session(self, tenant: str, key: str | None) -> HttpAnswer:
        """What opening a session is answered with.

        Raises:
            WrongAnswer: it is refused.
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

    def websocket(self, path: str, protocol: str, token: str) -> ClientConnection:
        """An open WebSocket, to be used as a context."""
        return connect(
            f"{self.url.replace('http', 'ws', 1)}{path}",
            subprotocols=[Subprotocol(protocol), Subprotocol(f"bearer.{token}")],
            open_timeout=self._silence_seconds,
            close_timeout=2,
            proxy=None,
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
            connection.request(method, path, sent, of_body | dict(headers or {}))
            yield connection.getresponse()

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
        """The header that says whose call it is."""
        return _bearer(self.token)

    def call(self, route: Route, body: object = None, **names: str) -> HttpAnswer:
        """A call of a route with the token."""
        path = route.with_names(**names)
        return self.front_door.call(route.method, path, body, self.bearer)


def _whole(answer: HTTPResponse) -> HttpAnswer:
    return HttpAnswer(answer.status, answer.headers, answer.read())


def _bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _code(body: bytes) -> str:
    """The code of Evenflow's errors, where the body is one."""
    try:
        return f" {json.loads(body)['error']['code']}"
    except (ValueError, KeyError, TypeError):
        return " (not in Evenflow's shape: somebody else answered)"
