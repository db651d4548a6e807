"""Finds the hop fault that an answer or an error shows."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http.client import BadStatusLine, HTTPResponse, IncompleteRead
from threading import Lock
from typing import Any

from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidHeader,
    InvalidStatus,
    InvalidUpgrade,
    NegotiationError,
)

from evenflow.doctor.hop_faults import (
    AUTHORIZATION,
    BODY_SIZE,
    BUFFERING,
    COMPRESSION,
    CORS,
    CUT,
    FOREIGN,
    HOST,
    HTTP_1_0,
    IDLE,
    NO_WEBSOCKETS,
    REDIRECT,
    SUBPROTOCOL,
    TLS,
    UNREACHED,
    UPGRADE,
    HopFault,
    hop_names,
)
from evenflow.functions.canary.checks import Check, run_check
from evenflow.functions.canary.front_door import (
    HttpAnswer,
    UnexpectedAnswer,
    answer_of_handshake,
)
from evenflow.functions.canary.reading import WrongAnswer

_EVENT_STREAM = "text/event-stream"
_HTTP_1_0 = 10
_TOO_MANY = 429
_TOKEN = re.compile(r"\bbearer\.[^\s,]+", re.IGNORECASE)
# Evenflow's errors that only a hop can cause: the caller did send what is missing.
_FAULT_OF_CODE = {
    "token_missing": AUTHORIZATION,
    "upgrade_required": UPGRADE,
    "unsupported_subprotocol": SUBPROTOCOL,
    "host_not_allowed": HOST,
    "origin_not_allowed": CORS,
}
_FAULT_OF_STATUS = {413: BODY_SIZE, 502: UNREACHED, 503: UNREACHED, 408: IDLE, 504: IDLE}

_FAULT_OF_ERROR = (
    ((InvalidUpgrade, NegotiationError), SUBPROTOCOL),
    (InvalidHandshake, NO_WEBSOCKETS),
    (ssl.SSLError, TLS),
    ((IncompleteRead, ConnectionClosed, ConnectionResetError), CUT),
    (BadStatusLine, FOREIGN),
)

# The token comes in the header that names subprotocols.
_FAULT_OF_HANDSHAKE = {AUTHORIZATION: SUBPROTOCOL, FOREIGN: NO_WEBSOCKETS}


class HopFaultFound(WrongAnswer):
    """A check has found what a hop does wrong. The message says what was seen."""

    def __init__(self, fault: HopFault, seen: str) -> None:
        super().__init__(seen)
        self.fault = fault


class NotTested(Exception):
    """A check has no result. The message says why."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one check.

    Args:
        mark: ✓ as it should be, ✗ wrong, ! harmless or not tested.
        fault: what a hop does wrong. None: nothing, or it is not known.
    """

    check: str
    mark: str
    seen: str
    fault: HopFault | None = None


def observe(check: str, look: Callable[[], str]) -> Observation:
    """Run a check. `look` returns what was seen, and raises if it is wrong."""
    seen, not_tested = list[str](), list[str]()

    def run() -> None:
        try:
            seen.append(look())
        except NotTested as reason:
            not_tested.append(str(reason))

    finding = run_check(Check(check, run, ""))
    if not_tested:
        return Observation(check, "!", not_tested[0])
    if finding.wrong is None or finding.error is None:
        return Observation(check, "✓", seen[0])
    fault, what = judge_error(finding.error, finding.wrong)
    # A hop may send back all that the handshake offered, and reports are shown to others.
    what = _TOKEN.sub("bearer.…", what)
    is_harmless = _is_limit(finding.error) if fault is None else fault.is_harmless
    return Observation(check, "!" if is_harmless else "✗", what, fault)


def _is_limit(error: Exception) -> bool:
    """Whether Evenflow refused a call for a limit of this caller: nothing was tested then."""
    match error:
        case UnexpectedAnswer():
            return error.answer.status == _TOO_MANY
        case InvalidStatus():
            return error.response.status_code == _TOO_MANY
    return False


def judge_error(error: Exception, description: str) -> tuple[HopFault | None, str]:
    """The fault that an error shows, and a description.

    Args:
        description: the error, in words.
    """
    match error:
        case HopFaultFound():
            return error.fault, description
        case InvalidHeader(name="Sec-WebSocket-Protocol"):
            return SUBPROTOCOL, description
        case UnexpectedAnswer():
            return judge_answer(error.answer)
        case InvalidStatus():
            fault, seen = judge_answer(answer_of_handshake(error.response))
            return (fault and _FAULT_OF_HANDSHAKE.get(fault, fault)), seen
    faults = (fault for kinds, fault in _FAULT_OF_ERROR if isinstance(error, kinds))
    return next(faults, None), description


def judge_answer(answer: HttpAnswer) -> tuple[HopFault | None, str]:
    """The fault that an answer with an unexpected status shows, and a description."""
    error = evenflow_error(answer)
    if error is not None:
        code = error.get("code")
        if code == "bad_request" and "HTTP/1.1" in str(error.get("message")):
            return HTTP_1_0, "the handshake reached Evenflow as HTTP/1.0"
        return _FAULT_OF_CODE.get(str(code)), f"{answer.status} {code}: {error.get('message')}"
    seen = f"{answer.status} that is not Evenflow's"
    if 300 <= answer.status < 400:
        return REDIRECT, f"{answer.status} to {answer.headers.get('Location')}"
    kind = answer.headers.get_content_type()
    if hops := hop_names(answer.headers):
        seen += f" ({', '.join(hops)})"
    return _FAULT_OF_STATUS.get(answer.status, FOREIGN), f"{seen}, {kind}"


def evenflow_error(answer: HttpAnswer) -> dict[str, Any] | None:
    """The error of an answer, in Evenflow's shape. None: it has no such error."""
    try:
        error = json.loads(answer.body)["error"]
        return error if isinstance(error, dict) and "code" in error else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class HeadCollector:
    """Collects hops' names, and their changes to streams, from the heads of answers."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.hop_names: list[str] = []
        self._faults: dict[HopFault, str] = {}
        self._streams = 0

    def add(self, answer: HTTPResponse) -> None:
        """Record the head of an answer."""
        headers = answer.headers
        is_stream = headers.get_content_type() == _EVENT_STREAM
        with self._lock:
            for name in hop_names(headers):
                if name not in self.hop_names:
                    self.hop_names.append(name)
            self._streams += is_stream
            if answer.version == _HTTP_1_0:
                self._faults[HTTP_1_0] = "answers come as HTTP/1.0"
            if is_stream and headers.get("Content-Encoding"):
                self._faults[COMPRESSION] = f"Content-Encoding: {headers['Content-Encoding']}"
            if is_stream and headers.get("Content-Length"):
                self._faults[BUFFERING] = f"Content-Length: {headers['Content-Length']}"

    def look(self) -> str:
        """Check what hops do to the heads of streams.

        Raises:
            HopFaultFound: they change them.
            NotTested: no stream came.
        """
        for fault, seen in sorted(self._faults.items(), key=lambda item: item[0].is_harmless):
            raise HopFaultFound(fault, seen)
        if not self._streams:
            raise NotTested("no event stream came")
        return "not compressed, no Content-Length"
