"""The check of cancelling, with the frames of a socket as a test gives them."""

from __future__ import annotations

from collections.abc import Mapping
from email.message import Message
from typing import Any
from unittest.mock import create_autospec

import pytest
from websockets.sync.client import ClientConnection

from evenflow.functions.canary.behaviours import cancel_stops_the_answer
from evenflow.functions.canary.checks import Check, run_check
from evenflow.functions.canary.front_door import FrontDoor, HttpAnswer, Session
from evenflow.functions.canary.reading import Frame

START = {"type": "chat.response.start", "response_id": "rsp_1"}
DELTA = {"type": "chat.response.delta", "index": 0, "delta": "a"}


class ScriptedDoor(FrontDoor):
    """Every response is cancelled; the socket has these frames and is silent then."""

    def __init__(self, frames: list[Frame]) -> None:
        super().__init__("http://host")
        self._frames = frames

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        return HttpAnswer(200, Message(), b'{"status":"cancelled"}')

    def websocket(self, path: str, protocol: str, token: str, origin: str | None = None) -> Any:
        return create_autospec(ClientConnection, instance=True)

    def receive(self, websocket: ClientConnection) -> Frame:
        if not self._frames:
            raise TimeoutError
        return self._frames.pop(0)


def found(*frames: Frame) -> str | None:
    """What the check finds wrong."""
    session = Session(ScriptedDoor(list(frames)), "s1", "token")
    check = Check("cancel", lambda: cancel_stops_the_answer(session, "?"), "the log")
    return run_check(check).wrong


def ended(finish_reason: str) -> Frame:
    return {"type": "chat.response.completed", "finish_reason": finish_reason}


def test_a_socket_that_is_told_of_the_cancel_is_well() -> None:
    assert found({"type": "session.ready"}, START, DELTA, ended("cancelled")) is None


def test_a_socket_that_is_told_something_else_is_not() -> None:
    assert found(START, ended("stop")) == "the socket was told stop"
    assert found(START, DELTA) == "nothing came in time"


@pytest.mark.parametrize("kind", ["error", "throttle", "system.busy", "chat.response.error"])
@pytest.mark.parametrize("before", [[], [START, DELTA]])
def test_a_failure_is_told_at_once(kind: str, before: list[Frame]) -> None:
    assert found(*before, {"type": kind, "error": {"code": "why"}}) == f"{kind} came: why"
