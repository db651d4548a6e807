"""Checks of what hops change in heads and bodies: cookies, CORS, caching, body size."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie

from evenflow.doctor.evidence import HopFaultFound, NotTested, evenflow_error
from evenflow.doctor.hop_faults import (
    BODY_SIZE,
    CACHING,
    CLOSING,
    COOKIES,
    CORS,
    HOST,
    LAST_EVENT_ID,
    STICKINESS,
)
from evenflow.functions.canary.behaviours import (
    check_refusals,
    client_stays_with_its_task,
    events_of,
)
from evenflow.functions.canary.front_door import FrontDoor, HttpAnswer, Session, UnexpectedAnswer
from evenflow.functions.canary.reading import WrongAnswer
from evenflow.functions.canary.transports import V1
from evenflow.stream_core.http.routes import (
    COMPLETIONS,
    EVENTS,
    MESSAGES,
    OPEN_SESSION,
    POST_MESSAGE,
    WEBSOCKET,
)

_EVENTS_COOKIE = "evenflow-events"
_RESUMED_AFTER = 3
# A server's default limit of a body (EVENFLOW_REQUEST_BYTES).
_BODY_BYTES = 4 * 1_048_576
# For the rest of the body, in addition to its long text.
_SPARE_BYTES = 4_096


def check_address(front_door: FrontDoor, opened: HttpAnswer) -> str:
    """Check that clients are sent to the address that was called. Returns what was seen."""
    announced_url = opened.json["http_url"]
    if announced_url != front_door.url:
        raise HopFaultFound(HOST, f"clients are sent to {announced_url or 'no known address'}")
    if (opened.headers.get("Connection") or "").lower() == "close":
        raise HopFaultFound(CLOSING, "answers come with `Connection: close`")
    return "opens sessions, and sends clients to this address"


def check_authorization(session: Session) -> str:
    """Check that `Authorization` arrives."""
    session.call(MESSAGES, session_id=session.session_id).expect(200)
    return "arrives"


def ask_with_cookie(session: Session, question: str) -> tuple[str, str]:
    """Send a message, and request a cookie for its events.

    Returns the response's id and the cookie's value, which is empty if no cookie came.
    """
    body = {
        "message_id": "m1",
        "previous_message_id": None,
        "payload": {"text": question},
        "cookie": True,
    }
    answer = session.call(POST_MESSAGE, body).expect(202)
    jar: SimpleCookie = SimpleCookie()
    for line in answer.headers.get_all("Set-Cookie", []):
        jar.load(line)
    cookie = jar.get(_EVENTS_COOKIE)
    return answer.json["response_id"], "" if cookie is None else cookie.value


def check_cookies(session: Session, response_id: str, cookie: str) -> str:
    """Check that cookies go both ways: `EventSource` has no other token."""
    if not cookie:
        raise HopFaultFound(COOKIES, "no Set-Cookie comes back")
    headers = {"Cookie": f"{_EVENTS_COOKIE}={cookie}"}
    path = EVENTS.with_names(response_id=response_id)
    try:
        with session.front_door.stream("GET", path, None, headers):
            pass
    except UnexpectedAnswer as error:
        if (evenflow_error(error.answer) or {}).get("code") == "token_missing":
            raise HopFaultFound(COOKIES, "a request's cookie does not arrive") from error
        raise
    try:
        client_stays_with_its_task(session)
    except UnexpectedAnswer:
        raise
    except WrongAnswer as error:
        raise HopFaultFound(STICKINESS, str(error)) from error
    return "go both ways"


def check_last_event_id(session: Session, response_id: str) -> str:
    """Check that `Last-Event-ID` arrives: a stream then resumes after it."""
    with events_of(session, response_id, str(_RESUMED_AFTER)) as events:
        for event in events:
            frame = json.loads(event.data)
            if frame["type"] != "chat.response.delta":
                continue
            first = frame.get("from", frame["index"])
            if first <= _RESUMED_AFTER:
                raise HopFaultFound(LAST_EVENT_ID, f"index {first} came again")
            return f"the stream goes on at {first}"
    raise NotTested("the answer was too short to resume it")


def check_caching(session: Session, response_id: str) -> str:
    """Check that no hop caches a rejection and returns it to a caller with a token."""
    try:
        check_refusals(session, response_id)
    except UnexpectedAnswer:
        raise
    except WrongAnswer as error:
        raise HopFaultFound(CACHING, str(error)) from error
    return "refusals are not kept"


def check_body_size(session: Session) -> str:
    """Send as large a body as servers take, for a model that doesn't exist: nothing runs."""
    size = _BODY_BYTES - _SPARE_BYTES
    body = {
        "model": "evenflow-doctor-names-no-model",
        "messages": [{"role": "user", "content": "x" * size}],
    }
    answer = session.call(COMPLETIONS, body)
    megabytes = f"{size / 1_000_000:.1f} MB"
    if evenflow_error(answer) is not None and answer.status == 404:
        return f"{megabytes} arrive"
    if evenflow_error(answer) is not None:
        raise NotTested(f"the server itself refuses {megabytes} with {answer.status}")
    if answer.status == 413:
        raise HopFaultFound(BODY_SIZE, f"413 that is not Evenflow's, for {megabytes}")
    answer.expect(404)
    return ""


def check_cors(session: Session, origin: str) -> str:
    """Check that a page of another origin may call, as its browser does."""
    front_door = session.front_door
    preflight = front_door.call(
        "OPTIONS",
        POST_MESSAGE.path,
        None,
        {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        },
    )
    _check_allowed(preflight, origin, "the preflight")
    headers = {"Origin": origin}
    _check_allowed(front_door.call(OPEN_SESSION.method, OPEN_SESSION.path, {}, headers), origin, "")
    with front_door.websocket(WEBSOCKET.path, V1, session.token, origin):
        pass
    return f"pages of {origin} may call"


def _check_allowed(answer: HttpAnswer, origin: str, call: str) -> None:
    allowed = answer.headers.get_all("Access-Control-Allow-Origin", [])
    if len(allowed) > 1:
        raise HopFaultFound(CORS, f"{len(allowed)} values of Access-Control-Allow-Origin came")
    if allowed not in ([origin], ["*"]):
        seen = f"{call or 'an answer'} ({answer.status}) does not allow {origin}"
        raise HopFaultFound(CORS, seen)
