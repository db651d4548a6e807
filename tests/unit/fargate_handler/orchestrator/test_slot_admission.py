"""What is the same for many that wait is found out once, and only where it matters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from evenflow.fargate_handler.orchestrator.slot_admission import Admission
from evenflow.fargate_handler.orchestrator.upstream import Upstreams
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource

FULL = 5_000  # more than the first window


class Waiting:
    """Messages to one model, and what is asked to find out whether they may begin."""

    def __init__(
        self,
        ahead: int,
        may_come: list[str],
        least: tuple[str, float],
        several: bool = True,
    ) -> None:
        self.upstream = Upstreams(ControlledSource(), Limits(prefill_delay_ms=20)).of("m")
        self.limiter = self.upstream.limiter
        self.limiter.acquire("prefill", "busy", "sender", 0.0, ahead)
        self.limiter.running -= 1  # the tests count those that have a token
        self.asked: list[str] = []
        self._answers = may_come, least, several
        self.tenants: tuple[str, ...] = ()
        self.urgency: dict[str, int] = {}
        self.admits = self.again()

    def again(self) -> Admission:
        """Find out anew."""
        may_come, least, several = self._answers
        return Admission(
            1.0,
            several,
            None,
            self.tenants,
            lambda tenant: self.urgency.get(tenant, 1),
            lambda: self._told("may come", may_come),
            lambda: self._told("least", least),
            lambda generation: generation.meter.input_tokens,
        )

    def start(self) -> None:
        """Another call starts, and has a token."""
        self.limiter.acquire("", "busy", "sender", 0.0, None)

    def start_without_token(self, count: int) -> None:
        """Calls start. A second of silence has doubled the initial limit, eight."""
        for _ in range(count):
            self.limiter.acquire(str(self.limiter.running), "busy", "sender", 0.0, 1)

    def message(
        self,
        tenant: str,
        service: int = 10,
        tokens: int = 0,
        not_before: float = 0.0,
        service_class: ServiceClass = ServiceClass.STANDARD,
    ) -> Any:
        return SimpleNamespace(
            line=Line(tenant, "session", service_class=service_class),
            not_before=not_before,
            upstream=self.upstream,
            stream=SimpleNamespace(tokens=tokens),
            meter=SimpleNamespace(input_tokens=service),
        )

    def _told(self, what: str, answer: Any) -> Any:
        self.asked.append(what)
        return answer


def test_where_the_window_has_room_nobody_is_compared() -> None:
    waiting = Waiting(ahead=10, may_come=["quiet"], least=("quiet", 5.0))
    assert waiting.admits(waiting.message("busy"))
    assert waiting.asked == []


def test_behind_a_full_window_tenants_are_compared_once_for_all_that_wait() -> None:
    waiting = Waiting(FULL, may_come=["quiet"], least=("few", 50.0))
    messages = [waiting.message(f"t{number % 5}") for number in range(1_000)]
    assert not any(map(waiting.admits, messages))
    assert waiting.asked == ["may come", "least"]


def test_who_was_given_least_may_begin_what_leaves_it_so() -> None:
    waiting = Waiting(FULL, may_come=["quiet"], least=("few", 50.0))
    sizes = [(size, waiting.admits(waiting.message("few", size))) for size in (40, 51, 50)]
    assert sizes == [(40, True), (51, False), (50, True)]


def test_where_only_the_tenant_itself_may_come_it_waits_for_nobody() -> None:
    waiting = Waiting(FULL, may_come=["busy"], least=("few", 50.0))
    assert waiting.admits(waiting.message("busy"))


def test_the_last_fifth_of_the_slots_is_for_who_was_given_least() -> None:
    waiting = Waiting(ahead=0, may_come=["quiet"], least=("few", 50.0))
    waiting.limiter.limit.limit = 5
    for _ in range(4):
        assert waiting.admits(waiting.message("busy"))
        waiting.start()
        waiting.admits = waiting.again()
    assert not waiting.admits(waiting.message("busy"))
    assert waiting.admits(waiting.message("few"))
    waiting.start()
    assert not waiting.again()(waiting.message("few"))


def test_all_slots_are_for_those_that_wait_where_nobody_else_may_come() -> None:
    waiting = Waiting(ahead=0, may_come=[], least=("few", 50.0))
    waiting.limiter.limit.limit = 5
    for _ in range(4):
        waiting.start()
    assert waiting.admits(waiting.message("busy"))


def test_the_window_doesn_t_grow_for_those_that_wait_for_a_slot() -> None:
    waiting = Waiting(ahead=0, may_come=["quiet"], least=("few", 50.0))
    waiting.limiter.limit.limit = 5
    for _ in range(4):
        waiting.start()
    for number in range(200):
        waiting.limiter.limit.limit = 5  # it doesn't grow either
        assert not waiting.again()(waiting.message("busy"))
        waiting.limiter.acquire(str(number), "few", "sender", number, 500)
        waiting.limiter.record_first_token(str(number), now=number + 0.05)
        waiting.limiter.release(str(number), "few", "sender")
    waiting.limiter.acquire("long", "busy", "sender", 200.0, 2_000)
    assert waiting.limiter.window_is_full


def test_while_one_tenant_asks_prompts_are_not_bounded_and_slots_are_for_the_next_one() -> None:
    waiting = Waiting(FULL, may_come=["quiet"], least=("quiet", 1.0), several=False)
    waiting.limiter.limit.limit = 8
    for _ in range(8):
        assert waiting.again()(waiting.message("busy"))
        waiting.start()
    assert not waiting.again()(waiting.message("busy"))


def test_while_no_limit_is_known_only_the_batch_class_of_a_single_tenant_is_bounded() -> None:
    waiting = Waiting(ahead=0, may_come=[], least=("busy", 1.0), several=False)
    batch = waiting.message("busy", service_class=ServiceClass.BATCH)
    waiting.start_without_token(16)
    assert waiting.again()(waiting.message("busy"))
    assert not waiting.again()(batch)
    waiting.limiter.limit.limit = 16
    assert not waiting.again()(waiting.message("busy")), "the limit is known"


def test_while_no_limit_is_known_answers_of_several_tenants_are_bounded() -> None:
    waiting = Waiting(ahead=0, may_come=[], least=("busy", 1.0))
    waiting.start_without_token(15)
    assert waiting.again()(waiting.message("busy"))
    waiting.start_without_token(1)
    assert not waiting.again()(waiting.message("busy"))


def test_an_answer_that_goes_on_waits_for_its_model_alone() -> None:
    waiting = Waiting(FULL, may_come=["quiet"], least=("few", 50.0))
    assert waiting.admits(waiting.message("busy", tokens=1))
    waiting.limiter.backoff.pause(now=1.0, seconds=5.0)
    assert not waiting.again()(waiting.message("busy", tokens=1))
    assert not waiting.again()(waiting.message("few"))


def test_a_tenant_has_its_part_of_the_slots_and_one_while_another_waits_that_has_less() -> None:
    waiting = Waiting(ahead=0, may_come=[], least=("few", 50.0))
    slots, calls_of = waiting.limiter.limit, waiting.limiter.of_tenants
    slots.record_rejection(12, began_at=0.0, now=0.5)
    wanted = {"a": {"long": 9, "short": 9}, "b": {"long": 9, "short": 9}}
    slots.on_other_nodes = CallsOnOtherNodes(running=9, node="a", wanted_by_node=wanted)
    assert [slots.most_calls_of(tenant) for tenant in ("long", "short", "new")] == [4, 4, None]
    calls_of["long"] = 4
    waiting.tenants = ("long", "new")
    assert waiting.again()(waiting.message("long")), "nobody waits that has less than its part"
    waiting.tenants = ("long", "short")
    assert not waiting.again()(waiting.message("long"))
    assert waiting.again()(waiting.message("short"))
    waiting.urgency["short"] = 2
    assert waiting.again()(waiting.message("long")), "what is less urgent waits behind it"
    waiting.urgency["short"] = 0
    assert not waiting.again()(waiting.message("long"))
    calls_of["short"] = 4
    assert waiting.again()(waiting.message("long"))


def test_a_tenant_has_its_part_and_one_too_while_another_waits_at_another_task() -> None:
    waiting = Waiting(ahead=0, may_come=[], least=("few", 50.0))
    slots = waiting.limiter.limit
    slots.record_rejection(12, began_at=0.0, now=0.5)
    waiting.limiter.of_tenants["long"], waiting.tenants = 4, ("long",)

    def may_begin(running: int, **elsewhere: int) -> bool:
        wanted = {"a": {"long": 9, "short": 3}, "b": {"long": 9, **elsewhere}}
        slots.on_other_nodes = CallsOnOtherNodes(running=running, node="a", wanted_by_node=wanted)
        return waiting.again()(waiting.message("long"))

    assert may_begin(6, short=6), "all that the others want may run"
    assert not may_begin(6, short=7)
    assert not may_begin(6, short=3, other=4)
    waiting.urgency["short"] = 2
    assert may_begin(6, short=7), "what is less urgent waits behind it"


def test_a_question_that_its_server_refuses_waits_and_others_begin() -> None:
    waiting = Waiting(ahead=10, may_come=["quiet"], least=("quiet", 5.0))
    assert not waiting.admits(waiting.message("busy", not_before=1.1))
    assert waiting.admits(waiting.message("busy"))
