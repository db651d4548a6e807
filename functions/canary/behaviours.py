"""Checks of a deployment beyond answers: stickiness, resuming, cancelling, headers, caching."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.cookies import SimpleCookie
from itertools import islice

from websockets.sync.client import ClientConnection

from evenflow.functions.canary.front_door import FrontDoor, Session
from evenflow.functions.canary.reading import (
    Frame,
    LogText,
    ServerEvent,
    Stopwatch,
    TimedAnswer,
    WrongAnswer,
    server_events,
)
from evenflow.functions.canary.transports import V1, ask, over_polls
from evenflow.stream_core.http.routes import (
    CANCEL,
    EVENTS,
    INDEX,
    LIST_MODELS,
    POLL,
    STREAM,
    WEBSOCKET,
)

_CALLS = 4
_BEFORE_THE_CUT = 4
_COOKIE = "WSID"
_VIA = ("owner", "peer", "store")
_FAILURES = ("error", "throttle", "system.busy", "chat.response.error")


def session_names_the_address(front_door: FrontDoor, key: str | None, tenant: str) -> None:
    """`POST /session` names the address that was called, and may not be stored."""
    answer = front_door.post_session(tenant, key)
    expected = front_door.url, f"{front_door.url.replace('http', 'ws', 1)}{WEBSOCKET.path}"
    http_url, ws_url = answer.json["http_url"], answer.json["ws_url"]
    if (http_url, ws_url) != expected:
        raise WrongAnswer(f"it tells clients to call {http_url or 'no address'} and {ws_url}")
    _expect_header(answer.headers, "Cache-Control", "no-store")


def client_stays_with_its_task(session: Session) -> None:
    """The cookie comes, and a client that returns all cookies stays with its task."""
    jar, tasks = SimpleCookie(), set[str]()
    for _ in range(_CALLS):
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in jar.items())
        headers = session.bearer | ({"Cookie": cookie} if cookie else {})
        answer = session.front_door.call("GET", LIST_MODELS.path, None, headers).expect(200)
        for line in answer.headers.get_all("Set-Cookie", []):
            jar.load(line)
        if _COOKIE not in jar:
            raise WrongAnswer(f"no cookie {_COOKIE} came")
        tasks.add(jar[_COOKIE].value)
    if len(tasks) > 1:
        raise WrongAnswer(f"{_CALLS} calls with the cookie reached {len(tasks)} tasks")


def answer_goes_on_after_a_cut(session: Session, question: str) -> TimedAnswer:
    """Events go on behind `Last-Event-ID`, without a gap and without a repetition."""
    stopwatch, log = Stopwatch(), LogText()
    response_id = ask(session, question)
    last_id = None
    with events_of(session, response_id, None) as events:
        for event in islice(events, _BEFORE_THE_CUT):
            log.take(json.loads(event.data), stopwatch)
            last_id = event.event_id
    if log.ended:
        raise WrongAnswer("it had ended before it could be cut: ask for a longer answer")
    with events_of(session, response_id, last_id) as events:
        for event in events:
            log.take(json.loads(event.data), stopwatch)
    if not log.ended:
        raise WrongAnswer("the resumed stream was cut before the answer's end")
    whole = over_polls(session, response_id, Stopwatch()).text
    if log.text != whole:
        raise WrongAnswer(f"{len(log.text)} characters over the cut, {len(whole)} without one")
    return stopwatch.ended(log.text)


@contextmanager
def events_of(
    session: Session, response_id: str, last_id: str | None
) -> Iterator[Iterator[ServerEvent]]:
    """The events of a response, behind the one with `last_id`."""
    headers = session.bearer | ({} if last_id is None else {"Last-Event-ID": last_id})
    path = EVENTS.with_names(response_id=response_id)
    with session.front_door.stream("GET", path, None, headers) as answer:
        yield server_events(answer)


def cancel_stops_the_answer(session: Session, question: str) -> None:
    """A message over the WebSocket is cancelled by a call, and the socket receives the end."""
    front_door = session.front_door
    message = {"type": "chat.message", "message_id": "m1", "payload": {"text": question}}
    with front_door.websocket(WEBSOCKET.path, V1, session.token) as socket:
        socket.send(json.dumps(message))
        start = _next(front_door, socket, "chat.response.start")
        cancelled = session.call(CANCEL, response_id=start["response_id"]).expect(200)
        if cancelled.json["status"] != "cancelled":
            raise WrongAnswer(f"it was {cancelled.json['status']} when it was cancelled")
        end = _next(front_door, socket, "chat.response.completed")
    if end["finish_reason"] != "cancelled":
        raise WrongAnswer(f"the socket was told {end['finish_reason']}")


def _next(front_door: FrontDoor, socket: ClientConnection, kind: str) -> Frame:
    """The next frame of this type.

    Raises:
        WrongAnswer: a refusal or a failure came before it.
    """
    while True:
        frame: Frame = front_door.receive(socket)
        if frame["type"] == kind:
            return frame
        if frame["type"] in _FAILURES:
            raise WrongAnswer(f"{frame['type']} came: {frame['error']['code']}")


def headers_come_through(session: Session, question: str) -> None:
    """Headers of a stream, and of the page."""
    response_id = ask(session, question)
    path = EVENTS.with_names(response_id=response_id)
    with session.front_door.stream("GET", path, None, session.bearer) as stream:
        headers = stream.headers
    if headers.get("Evenflow-Via") not in _VIA:
        raise WrongAnswer(f"Evenflow-Via is {headers.get('Evenflow-Via')!r}")
    _expect_header(headers, "Cache-Control", "no-cache, no-transform")
    session.call(CANCEL, response_id=response_id).expect(200)
    page = session.front_door.call("GET", INDEX.path).expect(200).headers
    _expect_header(page, "X-Content-Type-Options", "nosniff")
    _expect_header(page, "Referrer-Policy", "no-referrer")
    if "frame-ancestors 'none'" not in page.get("Content-Security-Policy", ""):
        raise WrongAnswer("the page has no Content-Security-Policy of ours")
    if session.front_door.secure and not page.get("Strict-Transport-Security"):
        raise WrongAnswer("the page has no Strict-Transport-Security")


def errors_are_not_kept(session: Session, question: str) -> None:
    """A call that is rejected without a token is answered with one, at the same address."""
    response_id = ask(session, question)
    check_refusals(session, response_id)
    session.call(CANCEL, response_id=response_id).expect(200)


def check_refusals(session: Session, response_id: str) -> None:
    """Read a response without a token and then with it, at the same addresses.

    Raises:
        WrongAnswer: the rejection comes again.
    """
    for route in (POLL, STREAM):
        path = route.with_names(response_id=response_id)
        session.front_door.call("GET", path).expect(401)
        again = session.front_door.call("GET", path, None, session.bearer)
        if again.status == 401:
            raise WrongAnswer(f"the 401 of {route.public_path} came again, with a token")
        again.expect(200)


def _expect_header(headers: Message, name: str, value: str) -> None:
    if headers.get(name) != value:
        raise WrongAnswer(f"{name} is {headers.get(name)!r} instead of {value!r}")
