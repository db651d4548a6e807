"""All checks of a deployment, and the canary's: one answer over every transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from evenflow.functions.canary import behaviours
from evenflow.functions.canary.checks import Check, CheckResult, run_check, run_checks
from evenflow.functions.canary.front_door import FrontDoor, Session
from evenflow.functions.canary.protocols import STREAMED, WHOLE, read_streamed, read_whole
from evenflow.functions.canary.reading import Stopwatch, TimedAnswer
from evenflow.functions.canary.transports import TRANSPORTS, ask

QUESTION = "Count from one to sixty in words."
"""Its answer takes a model some seconds."""


@dataclass(frozen=True, slots=True)
class CanaryCaller:
    """The address, question and tenant of the checks. `key`: the tenant's. None: it has none."""

    front_door: FrontDoor
    question: str = QUESTION
    tenant: str = "public"
    key: str | None = None

    def session(self) -> Session:
        """A new one.

        Raises:
            WrongAnswer: it is refused.
        """
        return self.front_door.open_session(self.tenant, self.key)


def smoke(caller: CanaryCaller) -> list[CheckResult]:
    """Run all checks. If no session opens, only that one."""
    first = run_check(_session(caller))
    if first.wrong is not None:
        return [first]
    return [first, *canary(caller), *run_checks([*_protocols(caller), *_behaviours(caller)])]


def canary(caller: CanaryCaller) -> list[CheckResult]:
    """Read one answer over every transport. One result, if its message was not accepted."""
    found: list[CheckResult] = []

    def ask() -> None:
        found.extend(read_one_answer(caller.session(), caller.question))

    message = run_check(
        Check("a message", ask, "the handlers: their health, their log, the queue and the model")
    )
    return found if message.wrong is None else [message]


def _session(caller: CanaryCaller) -> Check:
    return Check(
        "/session",
        partial(behaviours.session_names_the_address, caller.front_door, caller.key, caller.tenant),
        "the function session_init and its log; 401: EVENFLOW_TENANT_KEY; another address, or a "
        "relative one: EVENFLOW_TRUSTED_PROXIES, in AWS CloudFront's function that sets "
        "x-evenflow-host",
    )


def _protocols(caller: CanaryCaller) -> Iterator[Check]:
    for streamed in STREAMED:
        yield Check(
            streamed.name,
            partial(_in_a_session, caller, partial(read_streamed, streamed)),
            f"the behavior and the rule of {streamed.route.pattern}; where it came at once, "
            "whatever buffers on the way",
        )
    for whole in WHOLE:
        yield Check(
            whole.name,
            partial(_in_a_session, caller, partial(read_whole, whole)),
            f"the behavior and the rule of {whole.route.pattern}; where it was cut, CloudFront's "
            "read timeout: a whole answer is silent until it is done",
        )


def _in_a_session(caller: CanaryCaller, read: Callable[[Session, str], TimedAnswer]) -> TimedAnswer:
    return read(caller.session(), caller.question)


def _behaviours(caller: CanaryCaller) -> Iterator[Check]:
    def in_a_session(act: Callable[[Session, str], TimedAnswer | None]) -> TimedAnswer | None:
        return act(caller.session(), caller.question)

    yield Check(
        "sticky cookie",
        lambda: behaviours.client_stays_with_its_task(caller.session()),
        "the target group's stickiness (WSID), and that CloudFront passes cookies both ways",
    )
    yield Check(
        "resume after a cut",
        partial(in_a_session, behaviours.answer_goes_on_after_a_cut),
        "that Last-Event-ID is passed on; the store's alarms",
    )
    yield Check(
        "cancel",
        partial(in_a_session, behaviours.cancel_stops_the_answer),
        "the rule of /chat/message/*/cancel; the handlers' log",
    )
    yield Check(
        "headers",
        partial(in_a_session, behaviours.headers_come_through),
        "CloudFront's response headers policies, and whatever drops headers on the way",
    )
    yield Check(
        "errors are not cached",
        partial(in_a_session, behaviours.errors_are_not_kept),
        "the cache policies (CachingDisabled), the error caching TTL (0), and whatever caches in "
        "front of CloudFront",
    )


def read_one_answer(session: Session, question: str) -> list[CheckResult]:
    """Send one message, and read its answer over each transport. All must give the same text.

    Raises:
        WrongAnswer, OSError, HTTPException: the message is not accepted.
    """
    stopwatches = [Stopwatch() for _ in TRANSPORTS]
    response_id = ask(session, question)
    checks = [
        Check(
            transport.name,
            partial(transport.read, session, response_id, stopwatch),
            transport.look_at,
        )
        for transport, stopwatch in zip(TRANSPORTS, stopwatches, strict=True)
    ]
    with ThreadPoolExecutor(len(checks)) as threads:
        return _compared(list(threads.map(run_check, checks)))


def _compared(findings: list[CheckResult]) -> list[CheckResult]:
    """The same results; a text that differs from the most frequent one is wrong."""
    texts = [finding.reading.text for finding in findings if finding.reading is not None]
    common_text = max(texts, key=texts.count, default="")
    return [
        finding
        if finding.reading is None or finding.reading.text == common_text
        else CheckResult(
            finding.check,
            finding.reading,
            finding.seconds,
            f"{len(finding.reading.text)} characters, and over others {len(common_text)}: not one "
            "text",
        )
        for finding in findings
    ]
