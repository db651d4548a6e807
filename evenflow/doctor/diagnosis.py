"""All checks of one address, run concurrently: they take as long as the longest."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from evenflow.doctor import headers, streams
from evenflow.doctor.evidence import (
    HeadCollector,
    NotTested,
    Observation,
    evenflow_error,
    observe,
)
from evenflow.doctor.hop_faults import HopFault
from evenflow.doctor.streams import (
    AnswerPace,
    read_completion,
    read_transports,
    read_whole_completion,
)
from evenflow.functions.canary.front_door import FrontDoor, HttpAnswer, Session, UnusableKey
from evenflow.functions.canary.protocols import model_name
from evenflow.functions.canary.reading import WrongAnswer
from evenflow.functions.canary.smoke import QUESTION
from evenflow.functions.canary.transports import ask

DEMO_QUESTION = "#demo tokens=60 gap_ms=100"
"""The demo model answers it in pieces, over six seconds."""
_DEMO_MODEL = "demo"
# Added to the tested silence. A call that waits longer counts as lost.
_PATIENCE_SECONDS = 30.0
_ADDRESS_CHECK = "address"


class NotReached(Exception):
    """No check could be made. The message says why."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The settings of a diagnosis.

    Args:
        question: None: a default with an answer of some seconds.
        idle_seconds: how long connections are kept silent.
        origin: of a page that should be able to call. None: CORS is not checked.
    """

    key: str | None = None
    tenant: str = "public"
    question: str | None = None
    idle_seconds: float = 65.0
    origin: str | None = None


@dataclass
class Diagnosis:
    """The observations at one address."""

    url: str
    hop_names: list[str] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    @property
    def faults(self) -> list[HopFault]:
        """Each fault that was found, once."""
        return list(dict.fromkeys(o.fault for o in self.observations if o.fault is not None))

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return all(observation.mark != "✗" for observation in self.observations)


def diagnose(url: str, examination: Examination) -> Diagnosis:
    """Run all checks. If no session opens, the others are skipped.

    Raises:
        NotReached: no check could be made.
        ValueError: the URL is invalid.
    """
    heads = HeadCollector()
    front_door = FrontDoor(url, examination.idle_seconds + _PATIENCE_SECONDS, heads.add)
    sessions: list[Session] = []
    address = observe(_ADDRESS_CHECK, lambda: _open(front_door, heads, examination, sessions))
    diagnosis = Diagnosis(front_door.url, heads.hop_names, [address])
    if sessions:
        diagnosis.observations += _Checks(front_door, examination, sessions[0]).run()
        diagnosis.observations.append(observe("heads of streams", heads.look))
    return diagnosis


def _open(
    front_door: FrontDoor,
    heads: HeadCollector,
    examination: Examination,
    sessions: list[Session],
) -> str:
    """Open the first session, and look at the address that it names."""
    quick_door = FrontDoor(front_door.url, _PATIENCE_SECONDS, heads.add)
    try:
        opened = quick_door.post_session(examination.tenant, examination.key)
    except ssl.SSLError:
        raise
    except OSError as error:
        raise NotReached(f"{front_door.url} can't be reached: {error}") from error
    except UnusableKey as error:
        raise NotReached(f"EVENFLOW_TENANT_KEY can't be sent: {error}") from error
    except WrongAnswer as error:
        _check_refusal(error)
        raise
    body = opened.json
    sessions.append(Session(front_door, body["session_id"], body["token"]))
    return headers.check_address(front_door, opened)


def _check_refusal(error: WrongAnswer) -> None:
    """Separate Evenflow's own rejections from answers of hops.

    Raises:
        NotReached: Evenflow opens no session for this caller, or not now.
    """
    answer: HttpAnswer | None = getattr(error, "answer", None)
    refusal = None if answer is None else evenflow_error(answer)
    if answer is None or refusal is None or refusal["code"] == "host_not_allowed":
        return
    advice = "; set EVENFLOW_TENANT_KEY to a tenant's key" if answer.status == 401 else ""
    raise NotReached(
        f"Evenflow opens no session: {answer.status} {refusal['code']}: "
        f"{refusal.get('message')}{advice}"
    )


class _Checks:
    """The checks that need an open session."""

    def __init__(self, front_door: FrontDoor, examination: Examination, first: Session) -> None:
        self._front_door = front_door
        self._examination = examination
        self._first = first
        self._pace = AnswerPace()

    def run(self) -> list[Observation]:
        """Make all of them."""
        with ThreadPoolExecutor(16) as threads:

            def start(name: str, look: Callable[[], str]) -> Future[list[Observation]]:
                return threads.submit(lambda: [observe(name, look)])

            rows = [
                threads.submit(self._one_answer),
                start("/v1, streamed", self._completion),
                start("/v1, whole", self._whole_completion),
                start("Authorization", partial(headers.check_authorization, self._first)),
                start("request size", partial(headers.check_body_size, self._first)),
                start("idle WebSocket", self._idle_websocket),
                threads.submit(self._idle_answer),
            ]
            if (origin := self._examination.origin) is not None:
                rows.append(start("CORS", partial(headers.check_cors, self._first, origin)))
            return [observation for row in rows for observation in row.result()]

    def _session(self) -> Session:
        return self._front_door.open_session(self._examination.tenant, self._examination.key)

    @property
    def _question(self) -> str:
        if self._examination.question is not None:
            return self._examination.question
        return DEMO_QUESTION if self._is_demo() else QUESTION

    def _is_demo(self) -> bool:
        return model_name(self._first) == _DEMO_MODEL

    def _one_answer(self) -> list[Observation]:
        """Send a message by our own protocol, and run the checks that need its answer."""
        session, posted = self._first, list[tuple[str, str]]()

        def post() -> str:
            posted.append(headers.ask_with_cookie(session, self._question))
            return "accepted"

        message = observe("a message", post)
        try:
            return [message, *(self._read(session, *posted[0]) if posted else ())]
        finally:
            self._pace.is_known.set()

    def _read(self, session: Session, response_id: str, cookie: str) -> list[Observation]:
        """Read a response, and read it again as a returning client does."""
        rows = read_transports(session, response_id, self._pace)
        self._pace.is_known.set()
        looks = {
            "cookies": partial(headers.check_cookies, session, response_id, cookie),
            "Last-Event-ID": partial(headers.check_last_event_id, session, response_id),
            "caching": partial(headers.check_caching, session, response_id),
        }
        return [*rows, *(observe(check, look) for check, look in looks.items())]

    def _completion(self) -> str:
        return read_completion(self._session(), self._question, self._pace)

    def _whole_completion(self) -> str:
        return read_whole_completion(self._session(), self._question)

    def _idle_websocket(self) -> str:
        return streams.keep_websocket(self._session(), self._examination.idle_seconds)

    def _idle_answer(self) -> list[Observation]:
        """Read a silent answer by events and by a poll."""
        seconds, posted = self._examination.idle_seconds, list[tuple[Session, str]]()

        def post() -> str:
            if not self._is_demo():
                raise NotTested(
                    "only the demo model can be silent on demand: EVENFLOW_MODEL=demo behind the "
                    "same hops shows it"
                )
            session = self._session()
            posted.append((session, ask(session, streams.silent_question(seconds))))
            return ""

        message = observe("idle event stream", post)
        if not posted:
            return [message]
        (idle_response,) = posted
        with ThreadPoolExecutor(2) as threads:
            events = threads.submit(
                observe,
                "idle event stream",
                partial(streams.keep_events, *idle_response, seconds),
            )
            poll = threads.submit(
                observe, "idle poll", partial(streams.keep_poll, *idle_response, seconds)
            )
            return [events.result(), poll.result()]
