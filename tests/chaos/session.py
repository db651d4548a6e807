"""A session as a client has it: its token, its cookie, and its HTTP calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import orjson

from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel

TOKEN_SECONDS = 3_600
_CONNECT_SECONDS = 5.0


class Cookie:
    """WSID, as a browser keeps it for all connections of a page."""

    def __init__(self) -> None:
        self.node_id = ""

    @property
    def headers(self) -> dict[str, str]:
        """What to send."""
        return {"Cookie": f"WSID={self.node_id}"} if self.node_id else {}

    def take(self, set_cookie: str | None) -> str:
        """Keep what an answer sets; returns the id of the node that gave it, empty when it gave
        none.
        """
        if set_cookie and "WSID" in (morsels := SimpleCookie(set_cookie)):
            self.node_id = morsels["WSID"].value
        return self.node_id


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def code(self) -> str:
        """Of its error."""
        return str(self.body.get("error", {}).get("code", ""))

    @property
    def retry_after(self) -> float | None:
        """Seconds, as the header says."""
        value = self.headers.get("Retry-After")
        return float(value) if value else None


class ChaosSession:
    """One session.

    Args:
        url: the entry, `http://host:port`.
    """

    def __init__(self, http: aiohttp.ClientSession, url: str, session_id: str, token: str) -> None:
        self.session_id = session_id
        self.token = token
        self.cookie = Cookie()
        self.http = http
        self.url = url
        self.ws_url = url.replace("http://", "ws://", 1) + "/ws"

    @property
    def headers(self) -> dict[str, str]:
        """Of every HTTP call."""
        return {"Authorization": f"Bearer {self.token}", **self.cookie.headers}

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        seconds: float = 10.0,
        anywhere: bool = False,
    ) -> HttpAnswer:
        """One call; `anywhere`: without the cookie.

        Raises:
            aiohttp.ClientError, OSError, TimeoutError: there is no answer.
        """
        headers = self.headers
        if anywhere:
            headers.pop("Cookie", None)
        data = None if body is None else orjson.dumps(body)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
        async with self.http.request(
            method, self.url + path, data=data, headers=headers, timeout=timeout
        ) as answer:
            if not anywhere:
                self.cookie.take(answer.headers.get("Set-Cookie"))
            return await read_whole(answer)


class Sessions:
    """Opens sessions with tokens that are signed here, with the handlers' key: opening is not
    what is tested.
    """

    def __init__(self, http: aiohttp.ClientSession, url: str, key_id: str, secret: str) -> None:
        self._http = http
        self._url = url
        self._tokens = SessionTokens({key_id: secret.encode()})

    def open(self, session_id: str) -> ChaosSession:
        """A new session."""
        token, _ = self._tokens.issue(
            Channel("public", "demo", session_id), time.time(), TOKEN_SECONDS
        )
        return ChaosSession(self._http, self._url, session_id, token)


async def read_whole(answer: aiohttp.ClientResponse) -> HttpAnswer:
    """Read an answer to its end."""
    return HttpAnswer(answer.status, answer.headers, parsed(await answer.read(), answer.status))


def parsed(raw: bytes, status: int) -> dict[str, Any]:
    """A JSON body; what isn't JSON is the load balancer's, and its status is the error's code."""
    try:
        value: dict[str, Any] = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError:
        return {
            "error": {
                "code": f"load balancer {status}",
                "message": raw[:100].decode(errors="replace"),
            }
        }
    return value
