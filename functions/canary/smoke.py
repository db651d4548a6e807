"""Everything that a deployment must do for its clients, as checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from evenflow.functions.canary import behaviours
from evenflow.functions.canary.checks import Check, Finding, run_check, run_checks
from evenflow.functions.canary.front_door import FrontDoor, Session
from evenflow.functions.canary.one_answer import read_one_answer
from evenflow.functions.canary.protocols import STREAMED, WHOLE, read_streamed, read_whole
from evenflow.functions.canary.reading import Reading

QUESTION = "Count from one to sixty in words."
"""Its answer takes a model some seconds."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks what, and where. `key`: the tenant's, where it has one."""

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


def smoke(caller: Caller) -> list[Finding]:
    """Check everything. Where no session opens, nothing else is tried."""
    first = run_check(_session(caller))
    if first.wrong is not None:
        return [first]
    return [first, *canary(caller), *run_checks([*_protocols(caller), *_behaviours(caller)])]


def canary(caller: Caller) -> list[Finding]:
    """One answer over every transport; or one finding, where it could not be asked for."""
    found: list[Finding] = []

    def ask() -> None:
        found.extend(read_one_answer(caller.session(), caller.question))

    asked = run_check(
        Check("a message", ask, "the handlers: their health, their log, the queue and the model")
    )
    return found if asked.wrong is None else [asked]


def _session(caller: Caller) -> Check:
    return Check(
        "/session",
        partial(behaviours.session_names_the_address, caller.front_door, caller.key, caller.tenant),
        "the function session_init and its log; 401: EVENFLOW_TENANT_KEY; another address, or a "
        "relative one: EVENFLOW_TRUSTED_PROXIES, in AWS CloudFront's function that sets "
        "x-evenflow-host",
    )


def _protocols(caller: Caller) -> Iterator[Check]:
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


def _in_a_session(caller: Caller, read: Callable[[Session, str], Reading]) -> Reading:
    return read(caller.session(), caller.question)


def _behaviours(caller: Caller) -> Iterator[Check]:
    def in_a_session(act: Callable[[Session, str], Reading | None]) -> Reading | None:
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
