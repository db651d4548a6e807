"""How many calls a server answers at once is found out where it queues the others in silence."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable

import pytest

from evenflow.stream_core.upstream.aimd_limit import AIMDLimit
from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter
from evenflow.stream_core.upstream.first_token_latency import FirstToken
from tests.unit.seeds import seeds

SLOTS = 32
PREFILL_SECONDS, TOKENS = 0.1, 150
Seconds = Callable[[], float]


class Server:
    """A server with so many slots, or without a bound, and callers that always have a question.

    As many are asked as the limiter allows, 64 at most.
    """

    def __init__(self, slots: int | None, first_token: Seconds, rest: Seconds) -> None:
        self.limiter = ConcurrencyLimiter(prefill_delay=0.02)
        self.limit = self.limiter.limit
        self.most = 64
        self.now = 0.0
        self.extra_seconds = 0.0
        self._free = slots
        self._first_token, self._rest = first_token, rest
        self._asked = 0
        self._queue: deque[str] = deque()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    @property
    def running(self) -> int:
        """Calls that were made and have not ended."""
        return self.limiter.running

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot."""
        return len(self._queue)

    def run(self, seconds: float, at_once: Callable[[], int] | None = None) -> None:
        """Ask whatever may be asked, for so long."""
        end = self.now + seconds
        self._ask(at_once)
        while self._due and self._due[0][0] <= end:
            self.now, _, happens = heapq.heappop(self._due)
            happens()
            self._ask(at_once)
        self.now = end

    def _ask(self, at_once: Callable[[], int] | None) -> None:
        most = self.most if at_once is None else at_once()
        while self.limiter.running < most and self.limiter.may_start("busy", self.now):
            self._asked += 1
            name = str(self._asked)
            self.limiter.acquire(name, "busy", "sender", self.now, TOKENS)
            self._queue.append(name)
            self._begin_next()

    def _begin_next(self) -> None:
        if self._queue and (self._free is None or self._free > 0):
            if self._free is not None:
                self._free -= 1
            name = self._queue.popleft()
            after = self._first_token() + self.extra_seconds
            self._at(after, lambda: self._has_token(name))

    def _has_token(self, name: str) -> None:
        self.limiter.record_first_token(name, self.now)
        self._at(self._rest(), lambda: self._has_ended(name))

    def _has_ended(self, name: str) -> None:
        self.limiter.release(name, "busy", "sender")
        if self._free is not None:
            self._free += 1
        self._begin_next()

    def _at(self, after: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + after, self._asked * 1_000 + len(self._due), happens))


def _engine(seed: int, slots: int = SLOTS) -> Server:
    drawn = random.Random(seed)
    return Server(
        slots, lambda: PREFILL_SECONDS * drawn.uniform(0.7, 1.3), lambda: drawn.expovariate(1 / 6)
    )


def _service(seed: int, median: float = 0.6) -> Server:
    """One without a bound. Its first tokens take half or twice as long as others now and then."""
    drawn = random.Random(seed)
    return Server(
        None, lambda: median * drawn.lognormvariate(0.0, 0.5), lambda: drawn.expovariate(1 / 6)
    )


def _fluctuating(seed: int, least: int, most: int) -> Callable[[], int]:
    drawn = random.Random(seed)
    return lambda: drawn.randint(least, most)


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("slots", [12, SLOTS, 48])
def test_an_engine_s_slots_are_found_and_its_queue_is_short(slots: int, seed: int) -> None:
    server = _engine(seed, slots)
    server.run(60.0, _fluctuating(seed, 1, slots))
    server.run(600.0 / slots)  # what was asked before is answered by then
    lengths, limits = [], []
    for _ in range(100):
        server.run(1.0)
        lengths.append(server.waiting)
        limits.append(server.limit.limit or 0)
    assert min(limits) > 0
    assert 0.75 * slots <= sum(limits) / len(limits) <= slots + 4
    assert sum(lengths) / len(lengths) <= 4, "of 64 that are asked"


@pytest.mark.parametrize("seed", seeds(5))
def test_they_are_found_too_where_everything_begins_with_a_flood(seed: int) -> None:
    server = _engine(seed)
    server.run(60.0)
    limits = []
    for _ in range(100):
        server.run(1.0)
        limits.append(server.limit.limit or 0)
    assert min(limits) > 0
    assert 0.75 * SLOTS <= sum(limits) / len(limits) <= SLOTS + 4


@pytest.mark.parametrize("seed", seeds(10))
def test_a_service_without_a_bound_is_given_none(seed: int) -> None:
    server = _service(seed)
    server.run(600.0, _fluctuating(seed, 10, 200))
    assert server.limit.limit is None or server.limit.limit > 150


@pytest.mark.parametrize("seed", seeds(5))
def test_one_that_thinks_for_long_before_its_first_token_isn_t_either(seed: int) -> None:
    server = _service(seed, median=20.0)
    server.run(1_200.0, _fluctuating(seed, 10, 200))
    assert server.limit.limit is None or server.limit.limit > 150


def test_a_bound_from_a_bad_minute_grows_with_what_comes_in_time() -> None:
    server = _service(1)
    server.run(120.0, _fluctuating(1, 10, 60))
    server.extra_seconds = 15.0
    server.run(60.0)
    assert server.limit.limit is not None
    server.extra_seconds, server.most = 0.0, 200
    server.run(180.0)
    assert server.limit.limit > 150


@pytest.mark.parametrize("seed", seeds(3))
def test_a_service_that_is_slower_from_now_on_is_bounded_for_a_minute_at_most(seed: int) -> None:
    server = _service(seed)
    server.run(120.0, _fluctuating(seed, 10, 60))
    server.extra_seconds = 5.0
    server.run(180.0)
    running = []
    for _ in range(300):
        server.run(1.0)
        running.append(server.running)
    assert sum(running) / len(running) > 0.9 * server.most


def test_a_bound_is_forgotten_five_minutes_after_the_last_late_token() -> None:
    server = _engine(1)
    server.run(120.0)
    assert server.limit.limit is not None
    server.most = 8
    server.run(400.0)
    assert server.limit.limit is None


def test_an_engine_with_fewer_slots_than_before_is_found_out() -> None:
    server = _engine(1)
    server.run(120.0)
    server._free = (server._free or 0) - 10  # those that are lost are given back by no answer
    server.run(120.0)
    assert server.limit.limit is not None
    assert server.limit.limit <= SLOTS - 10 + 4


def test_a_fifth_of_the_slots_is_for_newcomers() -> None:
    limit = AIMDLimit()
    assert [limit.only_reserved(running) for running in (6, 7)] == [False, True]
    limit.limit = 30
    assert [limit.only_reserved(running) for running in (23, 24)] == [False, True]
    assert [limit.may_start(running) for running in (29, 30)] == [True, False]
    limit.limit = 8
    assert [limit.only_reserved(running) for running in (6, 7)] == [False, True]


def test_a_flood_of_a_server_of_which_nothing_is_known_is_a_few_calls() -> None:
    server = _engine(1)
    server.most = 1_000
    waiting = []
    for _ in range(600):
        server.run(0.1)
        waiting.append(server.waiting)
    assert max(waiting) <= SLOTS, "of a thousand"
    assert max(waiting[300:]) <= 8


@pytest.mark.parametrize("median", [0.6, 2.0, 20.0])
def test_a_service_without_a_bound_is_soon_given_all(median: float) -> None:
    server = _service(1, median)
    server.most = 1_000
    server.run(30 * median)
    assert server.running == server.most


def test_few_calls_at_once_say_nothing_of_many() -> None:
    server = _engine(1)
    server.run(600.0, lambda: 3)
    server.run(0.0, lambda: 1_000)
    assert server.running == 3 + 8


def test_a_task_that_has_found_nothing_goes_by_what_another_one_has_found() -> None:
    limit = AIMDLimit()
    wanted = {"a": {"t": 300}, "b": {"t": 200}, "c": {"t": 200}}
    limit.learn(CallsOnOtherNodes(limits=(24,), node="b", wanted_by_node=wanted), now=0.0)
    assert [limit.may_start(running) for running in (7, 8)] == [True, False]
    assert limit.limit is None
    limit.limit = 30
    assert [limit.may_start(running) for running in (9, 10)] == [True, False]


def test_what_others_have_found_is_kept_while_they_are_idle_and_forgotten_in_time() -> None:
    limit = AIMDLimit()
    wanted = {"a": {"t": 300}, "b": {"t": 200}}
    limit.learn(CallsOnOtherNodes(limits=(24,), node="b", wanted_by_node=wanted), now=1_000.0)
    limit.learn(CallsOnOtherNodes(unreported_nodes=1), now=1_001.0)
    assert limit.share == 12, "an equal part, until others have told what they ask"
    limit.record_first_token(FirstToken(0, 0, 100, 0, 0.1), 1, now=1_300.0)
    assert limit.limit == 24
    limit.record_first_token(FirstToken(0, 0, 100, 0, 0.1), 1, now=1_301.0)
    assert limit.limit is None


def test_a_first_token_is_beside_few_as_far_as_others_have_told_a_second_later() -> None:
    """Else what waits at a server that all have begun to ask at once is taken for usual."""
    limit = AIMDLimit()
    limit.learn(CallsOnOtherNodes(unreported_nodes=1), now=0.0)
    for running in range(10):
        limit.record_first_token(FirstToken(running, 0, 100, 0, 0.1), running + 1, now=1.0)
    limit.learn(CallsOnOtherNodes(unreported_nodes=1), now=1.0)
    for _ in range(20):
        limit.record_first_token(FirstToken(2, 0, 100, 0, 3.0), 3, now=4.0)
    limit.learn(CallsOnOtherNodes(running=40, answered=20, wanted_by_node={"a": {"t": 9}}), now=5.0)
    for _ in range(4):
        limit.record_first_token(FirstToken(9, 40, 100, 0, 3.0), 10, now=9.0)
    assert limit.limit is not None, "three seconds are late"


def _found_alone() -> AIMDLimit:
    """Ten calls were answered at once when four came late, at second 10. No others are known."""
    limit = AIMDLimit()
    for running in range(10):
        limit.record_first_token(FirstToken(running, 0, 100, 0, 0.1), running + 1, now=1.0)
    for _ in range(4):
        limit.record_first_token(FirstToken(12, 0, 100, 0, 3.0), 10, now=10.0)
    assert limit.limit == 10
    return limit


_OTHERS = CallsOnOtherNodes(
    running=24, answered=20, node="a", wanted_by_node={"a": {"t": 9}, "b": {"t": 9}}
)


def test_a_bound_found_before_others_have_told_what_they_ask_is_raised_by_that() -> None:
    limit = _found_alone()
    limit.learn(_OTHERS, now=0.0)
    limit.record_first_token(FirstToken(9, 24, 100, 0, 3.0), 10, now=12.0)
    assert limit.limit == 30, "are answered at once"


def test_one_that_was_found_longer_ago_is_not_raised() -> None:
    limit = _found_alone()
    limit.learn(_OTHERS, now=0.0)
    limit.record_first_token(FirstToken(9, 24, 100, 0, 3.0), 10, now=14.0)
    assert limit.limit == 10


def test_one_that_was_lowered_since_the_server_is_slower_is_not_raised_either() -> None:
    limit = _found_alone()
    for _ in range(4):
        limit.record_first_token(FirstToken(9, 0, 100, 0, 3.0), 10, now=20.0)
    assert limit.limit == 9
    limit.learn(_OTHERS, now=0.0)
    limit.record_first_token(FirstToken(9, 24, 100, 0, 3.0), 10, now=21.0)
    assert limit.limit == 9


def test_while_no_bound_is_known_tasks_divide_a_little_more_than_they_make() -> None:
    """Otherwise a tenant has more at a task whose calls grew first."""
    limit = AIMDLimit()
    assert limit.may_start(100, answered=100)
    wanted = {"a": {"long": 40}, "b": {"long": 20, "short": 40}}
    limit.learn(
        CallsOnOtherNodes(running=20, answered=20, node="a", wanted_by_node=wanted), now=0.0
    )
    assert [limit.may_start(running, answered=100) for running in (9, 10)] == [True, False]
    limit.learn(
        CallsOnOtherNodes(running=40, answered=40, node="a", wanted_by_node=wanted), now=0.0
    )
    assert [limit.may_start(running, answered=100) for running in (19, 20)] == [True, False]


def test_beside_calls_that_are_answered_there_may_be_as_many_as_at_first() -> None:
    limit = AIMDLimit()
    assert [limit.may_start(running, answered=300) for running in (307, 308)] == [True, False]
    assert [limit.may_start(8, answered) for answered in (0, 1)] == [False, True]
    limit.limit = 30
    assert not limit.may_start(30, answered=30)


def test_while_more_run_than_there_may_be_one_call_begins_for_two_that_end() -> None:
    limit = AIMDLimit()
    limit.limit, running, begun = 10, 20, 0
    for _ in range(12):
        if limit.may_start(running):
            assert limit.only_reserved(running), "it is for who was given least"
            limit.record_start(running)
            running, begun = running + 1, begun + 1
            assert not limit.may_start(running)
        running -= 1
    assert (running, begun) == (14, 6)
    assert not limit.may_start(10), "as many as there may be"
