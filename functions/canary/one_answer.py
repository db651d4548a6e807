"""One answer, read over every transport at once: what the canary does each minute."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from functions.canary.checks import Check, Finding, run_check
from functions.canary.front_door import Session
from functions.canary.reading import Stopwatch
from functions.canary.transports import TRANSPORTS, ask

_LOOK_AT = {
    "WebSocket v1": (
        "CloudFront's behavior of /ws and its origin request policy (it must pass Upgrade and "
        "Sec-WebSocket-*), the load balancer's rule for it, and its idle timeout"
    ),
    "WebSocket v1 compact": "as for WebSocket v1; where only this fails, the handlers' log",
    "realtime": "the behavior and the rule of /realtime, as for WebSocket v1",
    "server-sent events": (
        "whatever buffers, compresses or caches text/event-stream on the way: it must pass "
        "Cache-Control: no-transform and X-Accel-Buffering: no"
    ),
    "long poll": (
        "the function poll_response (its log, its throttle, its right to the table), and the HTTP "
        "API's route"
    ),
    "/streams": "the behavior and the rule of /streams/*, else as for server-sent events",
}


def read_one_answer(session: Session, question: str) -> list[Finding]:
    """Ask once; a finding for each transport. All must give the same text.

    Raises:
        WrongAnswer, OSError, HTTPException: the message is not accepted.
    """
    stopwatch_of = {name: Stopwatch() for name in TRANSPORTS}
    response_id = ask(session, question)
    checks = [
        Check(name, partial(transport, session, response_id, stopwatch_of[name]), _LOOK_AT[name])
        for name, transport in TRANSPORTS.items()
    ]
    with ThreadPoolExecutor(len(checks)) as threads:
        return _compared(list(threads.map(run_check, checks)))


def _compared(findings: list[Finding]) -> list[Finding]:
    """The same, where a text that is not that of most others is wrong."""
    texts = [finding.reading.text for finding in findings if finding.reading is not None]
    usual = max(texts, key=texts.count, default="")
    return [
        finding
        if finding.reading is None or finding.reading.text == usual
        else Finding(
            finding.check,
            finding.reading,
            finding.seconds,
            f"{len(finding.reading.text)} characters, and over others {len(usual)}: not one text",
        )
        for finding in findings
    ]
