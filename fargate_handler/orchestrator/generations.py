"""The generations that run here, those that wait for a place, and those that gave theirs up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from evenflow.fargate_handler.orchestrator.admission import Admission, AnswerKind
from evenflow.fargate_handler.orchestrator.answer_metrics import AnswerMetrics
from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.queue_places import QueuePlaces
from evenflow.fargate_handler.orchestrator.service_charges import ServiceCharges
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.errors import EvenflowError, Overloaded
from evenflow.stream_core.base.queue_place import StartRate
from evenflow.stream_core.bounds.shares import QUARTER, Shares
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.fair_queue import FairQueue, Line

_RETRY_AFTER_MS = 5_000
# Who has a turn though more urgent ones wait has its place for so long.
_KEPT_SECONDS = 1.0


class Generations:
    """Runs generations, at most as many at once as the node allows. The others wait.

    One whose readers all pause gives its place up while others wait: it is parked, its model is not
    read, and when a reader wants more it waits for a place like all others. So does a batch answer
    that is held: it gives its place to an interactive one.

    Args:
        on_end: called with each generation that has ended or was abandoned.
    """

    def __init__(self, context: NodeContext, on_end: Callable[[Generation], None]) -> None:
        self._limits = context.limits
        self._metrics = metrics = context.metrics
        self._monotonic = context.monotonic
        self._clock = context.clock
        self._on_end = on_end
        self._running: dict[str, Generation] = {}
        self._waiting: dict[str, Generation] = {}
        self.charges = ServiceCharges(context, self._running, self._waiting)
        """What tenants have been given."""
        self._queue: FairQueue[Generation] = FairQueue(
            # Those that go on after a pause, or after their model had no quota left, were accepted
            # already, and wait beside the others.
            context.limits.messages_per_node + context.limits.parked_responses,
            self.charges.counters,
            context.limits.least_class_share_percent / 100,
        )
        self._places: Shares[tuple[str, str]] = Shares(context.limits.generations_per_node, QUARTER)
        self._parked: dict[str, Generation] = {}
        # Answers that wait for tools of their clients, the longest wait first.
        self._at_tools: dict[str, Generation] = {}
        # Those of the running ones whose readers all pause, the longest pause first.
        self._idle: dict[str, Generation] = {}
        self._starts = StartRate()
        self._queue_places = QueuePlaces(context.clock, self._starts, self._waits)
        self._looks_at = 0.0
        # Those of the running ones that are of the lowest class; those that gave their place up.
        self._batch: dict[str, Generation] = {}
        self._held: set[str] = set()
        self._left_with: EvenflowError | None = None
        self._handed_over = False
        self._background = Background()
        self._ended_answers = AnswerMetrics(metrics)
        metrics.gauge(catalogue.QUEUE_DEPTH, lambda: self.queued)
        metrics.gauge(catalogue.GENERATIONS_RUNNING, lambda: self.running)
        metrics.gauge(catalogue.GENERATIONS_PARKED, lambda: len(self._parked) + len(self._at_tools))

    @property
    def _all_places(self) -> tuple[dict[str, Generation], ...]:
        return self._waiting, self._running, self._parked, self._at_tools

    def __len__(self) -> int:
        return self.without_parked + len(self._parked) + len(self._at_tools)

    @property
    def running(self) -> int:
        """How many have a place."""
        return len(self._running)

    @property
    def queued(self) -> int:
        """How many wait for a place."""
        return len(self._queue)

    @property
    def without_parked(self) -> int:
        """How many run or wait for a place."""
        return len(self._running) + len(self._queue)

    def __iter__(self) -> Iterator[Generation]:
        yield from [generation for place in self._all_places for generation in place.values()]

    def of(self, response_id: str) -> Generation | None:
        """The generation of a response here. None if there is none, or it was abandoned."""
        # One that was abandoned and is still closing its model doesn't hide the next one.
        return next(
            (
                generation
                for generation in (place.get(response_id) for place in self._all_places)
                if generation is not None and not generation.abandoned
            ),
            None,
        )

    def wanted(self) -> Mapping[str, Counter[str]]:
        """How many run or wait for a place, by the models' names at their server and by tenants."""
        wanted = defaultdict[str, Counter[str]](Counter)
        for generation in (*self._running.values(), *self._waiting.values()):
            wanted[generation.upstream.name][generation.line.tenant] += 1
        return wanted

    def yields_to(self, line: Line) -> bool:
        """Whether one that waits can make room for a message of this line."""
        return self._queue.displaced_by(line) is not None

    def make_room_for(self, line: Line) -> None:
        """End the newest that waits, of who has the most waiting, if that is another sender."""
        displaced = self._queue.displaced_by(line)
        if displaced is not None:
            self._metrics.counter(catalogue.QUEUE_REFUSED).value += 1
            displaced.interrupt(_displaced())

    def add(self, generation: Generation) -> None:
        """Begin a generation, or queue it.

        Raises:
            QueueFull: there is no place, and no room to wait.
        """
        self._compare_tenants(generation.line.tenant)
        self.charges.asks(generation.line.tenant)
        nobody_waits = not len(self._queue)
        if nobody_waits and not self._places.full and self._admission()(generation):
            self._queue.record_immediate_turn(generation.line)
            self._start(generation)
        else:
            self._wait(generation)
            self.fill()
        if self._left_with is not None:
            generation.interrupt(self._left_with)
        elif self._handed_over:
            generation.abandon()

    def wait_again(self, generation: Generation) -> None:
        """Release the slot of a generation, and queue it again.

        Its model's quota is used up for now, or the results of its tools have come.
        """
        if self._at_tools.pop(generation.stream.response_id, None) is None:
            self._leave_place(generation)
        self._wait(generation)
        self.fill()

    def wait_for_tools(self, generation: Generation) -> None:
        """Release the slot of a generation while its client runs tools."""
        self._leave_place(generation)
        self._at_tools[generation.stream.response_id] = generation
        if len(self._at_tools) > self._limits.parked_responses:
            next(iter(self._at_tools.values())).interrupt(_tools_too_slow())
        self.fill()

    def on_due(self, _slot: int) -> None:
        """A model may have quota again."""
        self.fill()
        for generation in self._waiting.values():
            self._look_when_open(generation)

    def tell_places(self, now: float) -> None:
        """Tell those that wait their places in the queue, and how long it takes."""
        self._queue_places.tell(self._queue.in_order(), now)

    def ended(self, generation: Generation) -> None:
        """Note that a generation has ended or was abandoned. The next one begins."""
        stream = generation.stream
        if self._waiting.get(stream.response_id) is generation:
            self._stop_waiting(generation)
        if self._running.get(stream.response_id) is generation:
            self._leave_place(generation)
        for place in (self._parked, self._at_tools):
            if place.get(stream.response_id) is generation:
                del place[stream.response_id]
        self.charges.ended(generation)
        stream.detach_generation()
        self._on_end(generation)
        if stream.state.terminal:
            self._ended_answers.count(stream)
        self.fill()

    def interrupt_all(self, error: EvenflowError) -> None:
        """End all generations with `error`, also those that are added later."""
        self._left_with = error
        for generation in tuple(self):
            generation.interrupt(error)

    def hand_over_all(self) -> None:
        """Leave all generations to other tasks, also those that are added later."""
        self._handed_over = True
        for generation in tuple(self):
            generation.stream.flush()
            generation.abandon()

    async def aclose(self) -> None:
        """Stop all generations and leave their responses. Returns when their models are closed."""
        self.hand_over_all()
        await self._background.aclose()

    def _next(self) -> Generation | None:
        """Take the next one that waits and has a place."""
        if not len(self._queue) or self._left_with is not None or self._handed_over:
            return None
        while self._places.full and self._idle:
            self._park(next(iter(self._idle.values())))
        taken = self._take_next()
        while taken is None and (idle := self._idle_at_a_full_server()) is not None:
            self._park(idle)
            taken = self._take_next()
        return taken

    def _idle_at_a_full_server(self) -> Generation | None:
        """The one whose readers pause for longest, of those that keep others from a server."""
        return next((it for it in self._idle.values() if it.upstream.limiter.is_full), None)

    def _take_next(self) -> Generation | None:
        if self._places.full and (greedy := self._places.greedy) is not None:
            return self._take(greedy) or self._take_for_batch()
        return self._take_for_batch() if self._places.full else self._take()

    def _admission(self) -> Admission:
        return self.charges.admission(self._queue.tenants, self._queue.urgency)

    def _take(self, but: tuple[str, str] | None = None) -> Generation | None:
        if len(self._queue.tenants) > 1:
            self.charges.bring_up_to_date()
        admission = self._admission()
        return self._queue.take(but, admission, admission.closed)

    def _take_for_batch(self) -> Generation | None:
        """Take the next one, if an answer can be held that is less urgent than one that waits."""
        held = self._least_urgent()
        taken = None if held is None else self._take()
        if held is not None and taken is not None:
            self._hold(held)
        return taken

    def _compare_tenants(self, tenant: str) -> None:
        """Charge what tenants have been given, where there is more than this one."""
        if len(self._queue.tenants) > 1 or self.charges.others_than(tenant):
            self.charges.bring_up_to_date()

    def fill(self) -> None:
        """Give places to those that wait, also those of generations whose readers all pause."""
        while (waiting := self._next()) is not None:
            self._start(waiting)

    def _start(self, generation: Generation) -> None:
        stream = generation.stream
        from_queue = self._waiting.pop(stream.response_id, None) is not None
        self._held.discard(stream.response_id)
        if (closing := self._running.get(stream.response_id)) is not None:
            self._leave_place(closing)  # it was abandoned, and its model isn't closed yet
        self._running[stream.response_id] = generation
        self._places.add(generation.line.sender)
        self._starts.note(self._monotonic(), waited=from_queue)
        stream.leave_queue()
        self.charges.starts(generation)
        stream.delivery.set_on_first_delta(partial(self._first_token, generation))
        if generation.line.service_class is ServiceClass.BATCH:
            self._batch[stream.response_id] = generation
            if self._queue.has_waiting(ServiceClass.INTERACTIVE):
                generation.keeps_place_until = self._monotonic() + _KEPT_SECONDS
        if generation.begun:
            generation.go_on()
            return
        waited = self._monotonic() - stream.created_at
        self._metrics.divided(catalogue.QUEUE_WAIT).record_of(
            generation.line.service_class, waited * 1000
        )
        generation.start(self._background)
        stream.backpressure.set_on_pause(partial(self._paused, generation))

    def _first_token(self, generation: Generation) -> None:
        self.charges.first_token(generation)
        if len(self._queue):
            self.fill()

    def _wait(self, generation: Generation) -> None:
        # Who had a place comes before all that its sender has asked since.
        had_one = generation.begun
        wanted_by = generation.stream.created_at if had_one else generation.wanted_by
        self._queue.put(generation.line, generation, wanted_by, AnswerKind.of(generation))
        self._waiting[generation.stream.response_id] = generation
        self._look_when_open(generation)

    def _look_when_open(self, generation: Generation) -> None:
        """Look again when the model takes calls, if it doesn't now. One look is enough for all."""
        now = self._monotonic()
        closed_until = now + generation.upstream.limiter.backoff.paused_for(now)
        opens_at = max(closed_until, generation.held_until)
        if opens_at > now and not now < self._looks_at <= opens_at:
            self._looks_at = opens_at
            self._clock.put_after(self, opens_at - now)

    def _waits(self, generation: Generation) -> bool:
        return self._waiting.get(generation.stream.response_id) is generation

    def _stop_waiting(self, generation: Generation) -> None:
        self._queue.remove(generation.line, generation)
        self._held.discard(generation.stream.response_id)
        del self._waiting[generation.stream.response_id]

    # -- parking -----------------------------------------------------------------------------------

    def _paused(self, generation: Generation, all_pause: bool) -> None:
        """The readers of a generation that has begun all pause, or not any more."""
        response_id = generation.stream.response_id
        is_read = bool(generation.stream.readers) or not generation.needs_reader
        wanted = not all_pause and (is_read or response_id in self._held)
        if self._running.get(response_id) is generation:
            if not all_pause:
                self._idle.pop(response_id, None)
            elif response_id not in self._idle:
                self._idle[response_id] = generation
                self.fill()
        elif wanted and self._parked.get(response_id) is generation:
            del self._parked[response_id]
            generation.waits_since = self._monotonic()
            self._wait(generation)
            self.fill()
        elif not wanted and self._waits(generation):
            generation.waits_since = None
            self._stop_waiting(generation)
            self._parked[response_id] = generation

    def _park(self, generation: Generation) -> None:
        self._leave_place(generation)
        self._parked[generation.stream.response_id] = generation
        generation.stream.backpressure.park()
        if len(self._parked) > self._limits.parked_responses:
            longest = next(iter(self._parked))
            self._parked.pop(longest).interrupt(_paused_too_long())

    def _least_urgent(self) -> Generation | None:
        """The answer to be held: the last one that began. None if none has to."""
        full = len(self._parked) + len(self._held) >= self._limits.parked_responses
        if full or not self._queue.has_waiting(ServiceClass.INTERACTIVE):
            return None
        now = self._monotonic()
        return next(
            (
                generation
                for generation in reversed(self._batch.values())
                if generation.keeps_place_until <= now
            ),
            None,
        )

    def _hold(self, generation: Generation) -> None:
        """Let a generation wait for a place again. Its model isn't read meanwhile."""
        self._leave_place(generation)
        self._held.add(generation.stream.response_id)
        generation.stream.backpressure.park()
        self._wait(generation)
        self._metrics.counter(catalogue.ANSWERS_HELD).value += 1

    def _leave_place(self, generation: Generation) -> None:
        del self._running[generation.stream.response_id]
        self._idle.pop(generation.stream.response_id, None)
        self._batch.pop(generation.stream.response_id, None)
        self.charges.leaves(generation)
        self._places.remove(generation.line.sender)


def _displaced() -> Overloaded:
    return Overloaded(
        "others wait too, and most of those that wait were this sender's; what was delivered was "
        "kept, send the message again as a new one",
        code="queue_displaced",
        retry_after_ms=_RETRY_AFTER_MS,
    )


def _tools_too_slow() -> Overloaded:
    return Overloaded(
        "too many other answers wait for tools of their clients, and this one has waited longest; "
        "what was delivered was kept, send the message again as a new one",
        code="queue_displaced",
        retry_after_ms=_RETRY_AFTER_MS,
    )


def _paused_too_long() -> Overloaded:
    return Overloaded(
        "all readers of this answer paused, and too many others waited for the model; what was "
        "delivered was kept, ask again",
        code="queue_timeout",
        retry_after_ms=_RETRY_AFTER_MS,
    )
