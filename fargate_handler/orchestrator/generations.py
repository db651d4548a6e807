"""The generations of this node: those with a slot, those that wait for one, and parked ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from evenflow.fargate_handler.orchestrator.answer_metrics import AnswerMetrics
from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.queue_positions import QueuePositions
from evenflow.fargate_handler.orchestrator.service_charges import ServiceCharges
from evenflow.fargate_handler.orchestrator.silent_models import SilentModels
from evenflow.fargate_handler.orchestrator.slot_admission import Admission, AdmissionGroup
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.errors import EvenflowError, Overloaded
from evenflow.stream_core.base.queue_place import StartRate
from evenflow.stream_core.bounds.shares import QUARTER, Shares
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.fair_queue import FairQueue, Line

_RETRY_AFTER_MS = 5_000
# How long an answer of the batch class that starts while interactive ones wait is not preempted.
_NO_PREEMPTION_SECONDS = 1.0


class Generations:
    """Runs generations within the node's limit. The others wait in a fair queue.

    While others wait, a generation whose readers all pause is parked: it releases its slot, its
    model is not read, and it is queued again when a reader resumes. A generation of the batch class
    can be preempted: it releases its slot to an interactive one, and is queued again.

    Args:
        on_end: called with each generation that has ended or was handed over.
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
        """Charges tenants for the service of their answers."""
        self._queue: FairQueue[Generation] = FairQueue(
            # Generations that resume were accepted already, and are queued in addition to new ones.
            context.limits.messages_per_node + context.limits.parked_responses,
            self.charges.counters,
            context.limits.least_class_share_percent / 100,
        )
        self._slots: Shares[tuple[str, str]] = Shares(context.limits.generations_per_node, QUARTER)
        self._parked: dict[str, Generation] = {}
        # Generations that wait for tools of their clients, the longest wait first.
        self._at_tools: dict[str, Generation] = {}
        # Running generations whose readers all pause, the longest pause first.
        self._idle: dict[str, Generation] = {}
        self._starts = StartRate()
        self._positions = QueuePositions(context.clock, self._starts, self._is_waiting)
        self._look_at = 0.0
        # Running generations of the batch class, by their start, and ids of preempted ones.
        self._running_batch_class: dict[str, Generation] = {}
        self._preempted: set[str] = set()
        self._ended_with: EvenflowError | None = None
        self._handed_over = False
        self._background = Background()
        self._ended_answers = AnswerMetrics(metrics)
        self._silent_models = SilentModels(metrics)
        metrics.gauge(catalogue.QUEUE_DEPTH, lambda: self.queued)
        metrics.gauge(catalogue.GENERATIONS_RUNNING, lambda: self.running)
        metrics.gauge(catalogue.GENERATIONS_PARKED, lambda: len(self._parked) + len(self._at_tools))

    def by_state(self) -> Iterator[tuple[str, Iterable[Generation]]]:
        """The generations in the order of their states, with the states' names."""
        names = ("waiting", "running", "parked", "at_tools")
        return zip(names, (tuple(group.values()) for group in self._by_state), strict=True)

    @property
    def _by_state(self) -> tuple[dict[str, Generation], ...]:
        return self._waiting, self._running, self._parked, self._at_tools

    def __len__(self) -> int:
        return self.without_parked + len(self._parked) + len(self._at_tools)

    @property
    def running(self) -> int:
        """The number of generations with a slot."""
        return len(self._running)

    @property
    def queued(self) -> int:
        """The number of generations that wait for a slot."""
        return len(self._queue)

    @property
    def without_parked(self) -> int:
        """The number of generations that run or wait for a slot."""
        return len(self._running) + len(self._queue)

    def __iter__(self) -> Iterator[Generation]:
        yield from [generation for group in self._by_state for generation in group.values()]

    def of(self, response_id: str) -> Generation | None:
        """The generation of a response here. None if there is none, or it was handed over."""
        # One that was handed over and is still closing its model doesn't hide the next one.
        return next(
            (
                generation
                for generation in (group.get(response_id) for group in self._by_state)
                if generation is not None and not generation.is_handed_over
            ),
            None,
        )

    def demand_by_model(self) -> Mapping[str, Counter[str]]:
        """The generations that run or wait, by their model's name at its server and by tenant."""
        demand = defaultdict[str, Counter[str]](Counter)
        for generation in (*self._running.values(), *self._waiting.values()):
            demand[generation.upstream.name][generation.line.tenant] += 1
        return demand

    def can_displace_for(self, line: Line) -> bool:
        """Whether a waiting generation of another sender can be ended for one of this line."""
        return self._queue.displaced_by(line) is not None

    def displace_for(self, line: Line) -> None:
        """End the newest generation of the sender with most waiting, unless that is this one."""
        displaced = self._queue.displaced_by(line)
        if displaced is not None:
            self._metrics.counter(catalogue.QUEUE_REFUSED).value += 1
            displaced.fail(_displaced())

    def add(self, generation: Generation) -> None:
        """Start a generation, or queue it.

        Raises:
            QueueFull: there is no slot, and the queue is full.
        """
        self._charge_if_contended(generation.line.tenant)
        self.charges.record_request(generation.line.tenant)
        is_queue_empty = not len(self._queue)
        if is_queue_empty and not self._slots.full and self._admission()(generation):
            self._queue.record_immediate_turn(generation.line)
            self._start(generation)
        else:
            self._enqueue(generation)
            self.fill_slots()
        if self._ended_with is not None:
            generation.fail(self._ended_with)
        elif self._handed_over:
            generation.hand_over()

    def requeue(self, generation: Generation) -> None:
        """Release the slot of a generation, and queue it again.

        Its model's quota is used up for now, or the results of its tools have come.
        """
        if self._at_tools.pop(generation.stream.response_id, None) is None:
            self._release_slot(generation)
        self._enqueue(generation)
        self.fill_slots()

    def wait_for_tools(self, generation: Generation) -> None:
        """Release the slot of a generation while its client runs tools."""
        self._release_slot(generation)
        self._at_tools[generation.stream.response_id] = generation
        if len(self._at_tools) > self._limits.parked_responses:
            next(iter(self._at_tools.values())).fail(_tools_too_slow())
        self.fill_slots()

    def on_due(self, _slot: int) -> None:
        """Start what can start now: a model may have quota again."""
        self.fill_slots()
        for generation in self._waiting.values():
            self._look_when_model_open(generation)

    def publish_positions(self, now: float) -> None:
        """Publish the positions of waiting generations in the queue, and the expected waits."""
        self._positions.publish(self._queue.in_order(), now)

    def remove(self, generation: Generation) -> None:
        """Remove a generation that has ended or was handed over, and start the next one."""
        stream = generation.stream
        if self._waiting.get(stream.response_id) is generation:
            self._remove_from_queue(generation)
        if self._running.get(stream.response_id) is generation:
            self._release_slot(generation)
        for group in (self._parked, self._at_tools):
            if group.get(stream.response_id) is generation:
                del group[stream.response_id]
        self.charges.settle(generation)
        stream.detach_generation()
        self._on_end(generation)
        if stream.state.terminal:
            self._ended_answers.count(stream, generation.line.service_class)
        self.fill_slots()

    def end_minute(self, now: float) -> None:
        """Count the answers that get nothing from their model."""
        self._silent_models.look(now, self._running.values())

    def fail_all(self, error: EvenflowError) -> None:
        """End all generations with `error`, also those that are added later."""
        self._ended_with = error
        for generation in tuple(self):
            generation.fail(error)

    def hand_over_all(self) -> None:
        """Hand over all generations to other nodes, also those that are added later."""
        self._handed_over = True
        for generation in tuple(self):
            generation.stream.flush()
            generation.hand_over()

    async def aclose(self) -> None:
        """Stop all generations and hand them over. Returns when their models are closed."""
        self.hand_over_all()
        await self._background.aclose()

    def _next_to_start(self) -> Generation | None:
        """Remove the next generation that can start from the queue. Idle ones are parked for it."""
        if not len(self._queue) or self._ended_with is not None or self._handed_over:
            return None
        while self._slots.full and self._idle:
            self._park(next(iter(self._idle.values())))
        taken = self._dequeue_next()
        while taken is None and (idle := self._idle_at_a_full_server()) is not None:
            self._park(idle)
            taken = self._dequeue_next()
        return taken

    def _idle_at_a_full_server(self) -> Generation | None:
        """The longest-paused running generation whose model is at its concurrency limit."""
        return next((each for each in self._idle.values() if each.upstream.limiter.is_full), None)

    def _dequeue_next(self) -> Generation | None:
        if self._slots.full and (greedy := self._slots.greedy) is not None:
            return self._dequeue(greedy) or self._dequeue_by_preempting()
        return self._dequeue_by_preempting() if self._slots.full else self._dequeue()

    def _admission(self) -> Admission:
        return self.charges.admission(self._queue.tenants, self._queue.urgency)

    def _dequeue(self, excluded: tuple[str, str] | None = None) -> Generation | None:
        if len(self._queue.tenants) > 1:
            self.charges.charge_running_answers()
        admission = self._admission()
        return self._queue.take(excluded, admission, admission.closed)

    def _dequeue_by_preempting(self) -> Generation | None:
        """Remove an interactive generation from the queue, and preempt one of the batch class."""
        preemptible = self._preemptible()
        taken = None if preemptible is None else self._dequeue()
        if preemptible is not None and taken is not None:
            self._preempt(preemptible)
        return taken

    def _charge_if_contended(self, tenant: str) -> None:
        """Charge all running answers if there is another tenant to compare this one with."""
        if len(self._queue.tenants) > 1 or self.charges.runs_other_tenants(tenant):
            self.charges.charge_running_answers()

    def fill_slots(self) -> None:
        """Start waiting generations in free slots. Those whose readers all pause are parked."""
        while (generation := self._next_to_start()) is not None:
            self._start(generation)

    def _start(self, generation: Generation) -> None:
        stream = generation.stream
        from_queue = self._waiting.pop(stream.response_id, None) is not None
        self._preempted.discard(stream.response_id)
        if (closing := self._running.get(stream.response_id)) is not None:
            self._release_slot(closing)  # it was handed over, and its model is not closed yet
        self._running[stream.response_id] = generation
        self._slots.add(generation.line.sender)
        self._starts.note(self._monotonic(), waited=from_queue)
        stream.leave_queue()
        self.charges.acquire_slot(generation)
        stream.delivery.set_on_first_delta(partial(self._on_first_token, generation))
        if generation.line.service_class is ServiceClass.BATCH:
            self._running_batch_class[stream.response_id] = generation
            if self._queue.has_waiting(ServiceClass.INTERACTIVE):
                generation.keeps_slot_until = self._monotonic() + _NO_PREEMPTION_SECONDS
        if generation.is_started:
            generation.on_slot()
            return
        service_class = generation.line.service_class
        waits = self._metrics.divided(catalogue.QUEUE_WAIT)
        waited_ms = (self._monotonic() - stream.created_at) * 1000
        if service_class is ServiceClass.BATCH:
            waits.of(service_class).record(waited_ms)
        else:
            waits.record_of(service_class, waited_ms)
        generation.start(self._background)
        stream.backpressure.set_on_pause(partial(self._on_pause, generation))

    def _on_first_token(self, generation: Generation) -> None:
        self.charges.record_first_token(generation)
        if len(self._queue):
            self.fill_slots()

    def _enqueue(self, generation: Generation) -> None:
        # A generation that had a slot comes before all later messages of its sender.
        had_slot = generation.is_started
        deadline = generation.stream.created_at if had_slot else generation.first_token_deadline
        self._queue.put(generation.line, generation, deadline, AdmissionGroup.of(generation))
        self._waiting[generation.stream.response_id] = generation
        generation.stream.backpressure.notify_again()
        self._look_when_model_open(generation)

    def _look_when_model_open(self, generation: Generation) -> None:
        """Schedule a look for when the model takes calls again. One look serves all that wait."""
        now = self._monotonic()
        paused_until = now + generation.upstream.limiter.backoff.paused_for(now)
        opens_at = max(paused_until, generation.not_before)
        if opens_at > now and not now < self._look_at <= opens_at:
            self._look_at = opens_at
            self._clock.put_after(self, opens_at - now)

    def _is_waiting(self, generation: Generation) -> bool:
        return self._waiting.get(generation.stream.response_id) is generation

    def _remove_from_queue(self, generation: Generation) -> None:
        self._queue.remove(generation.line, generation)
        self._preempted.discard(generation.stream.response_id)
        del self._waiting[generation.stream.response_id]

    # -- parking -----------------------------------------------------------------------------------

    def _on_pause(self, generation: Generation, all_pause: bool) -> None:
        """Park or queue a generation when its last active reader pauses, or one resumes."""
        response_id = generation.stream.response_id
        is_read = bool(generation.stream.readers) or not generation.needs_reader
        wanted = not all_pause and (is_read or response_id in self._preempted)
        if self._running.get(response_id) is generation:
            if not all_pause:
                self._idle.pop(response_id, None)
            elif response_id not in self._idle:
                self._idle[response_id] = generation
                self.fill_slots()
        elif wanted and self._parked.get(response_id) is generation:
            del self._parked[response_id]
            generation.waits_since = self._monotonic()
            self._enqueue(generation)
            self.fill_slots()
        elif not wanted and self._is_waiting(generation):
            generation.waits_since = None
            self._remove_from_queue(generation)
            self._parked[response_id] = generation

    def _park(self, generation: Generation) -> None:
        self._release_slot(generation)
        self._parked[generation.stream.response_id] = generation
        generation.stream.backpressure.park()
        if len(self._parked) > self._limits.parked_responses:
            longest = next(iter(self._parked))
            self._parked.pop(longest).fail(_paused_too_long())

    def _preemptible(self) -> Generation | None:
        """The newest generation of the batch class, if an interactive one waits for its slot."""
        full = len(self._parked) + len(self._preempted) >= self._limits.parked_responses
        if full or not self._queue.has_waiting(ServiceClass.INTERACTIVE):
            return None
        now = self._monotonic()
        return next(
            (
                generation
                for generation in reversed(self._running_batch_class.values())
                if generation.keeps_slot_until <= now
            ),
            None,
        )

    def _preempt(self, generation: Generation) -> None:
        """Release the slot of a generation and queue it again. Its model is not read meanwhile."""
        self._release_slot(generation)
        self._preempted.add(generation.stream.response_id)
        generation.stream.backpressure.park()
        self._enqueue(generation)
        self._metrics.counter(catalogue.ANSWERS_PREEMPTED).value += 1

    def _release_slot(self, generation: Generation) -> None:
        del self._running[generation.stream.response_id]
        self._idle.pop(generation.stream.response_id, None)
        self._running_batch_class.pop(generation.stream.response_id, None)
        self.charges.release_slot(generation)
        self._slots.remove(generation.line.sender)


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
