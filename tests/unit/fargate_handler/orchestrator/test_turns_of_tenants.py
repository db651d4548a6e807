"""Whose message is answered next, by what tenants were given and how urgent they are."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.agents import NO_TERMS, MessageTerms, ServiceClass
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.tenant_activity import Activity
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task
from tests.unit.settle import settle

RECORDS = (
    Tenant(id="urgent", service_class=ServiceClass.INTERACTIVE),
    Tenant(id="later", service_class=ServiceClass.BATCH),
    Tenant(id="heavy", weight=3),
)
# Words. A little more than the first window, and much more.
PROMPT, LONG_PROMPT = 650, 5_000
BATCH = MessageTerms(service_class=ServiceClass.BATCH)
INTERACTIVE = MessageTerms(service_class=ServiceClass.INTERACTIVE)


class Node:
    """A task of so many places, with tenants of different weights and classes."""

    def __init__(self, places: int = 1, task: Task | None = None, **limits: float) -> None:
        self.task = task or Task.alone(Limits(generations_per_node=places, **limits))
        self.task.tenants.replace(RECORDS)
        self.source = self.task.source
        self.streams: list[ResponseStream] = []
        self._sent = 0

    async def send(
        self, tenant: str, terms: MessageTerms = NO_TERMS, tokens: int = 1
    ) -> ResponseStream:
        """A message of a session of its own, of at least so many tokens."""
        self._sent += 1
        channel = Channel(tenant, "demo", f"{self.task.keeper.owner}.{self._sent}")
        text = f"{tenant} {self._sent}" + " more" * (tokens - 1)
        event = IncomingMessage(channel, "m", None, text, terms=terms)
        stream = (await self.task.orchestrator.submit(event)).stream
        await settle()
        self.streams.append(stream)
        return stream

    async def end(self, tokens: int = 0, usage: Usage | None = None) -> str:
        """The call that runs ends after so many tokens. Returns whose it was."""
        call = self.source.calls[-1]
        call.push(*["x"] * tokens)
        call.end.set_result(ModelFinish("stop", usage))
        await settle()
        return call.request.turns[-1].text.split()[0]

    @property
    def asked(self) -> list[str]:
        """Whose calls the model was given."""
        return [call.request.turns[-1].text.split()[0] for call in self.source.calls]

    async def first_token(self, call: int) -> None:
        self.source.calls[call].push("x")
        self.task.clock.turn(0.1)
        await settle()

    @property
    def held(self) -> int:
        return self.task.count(catalogue.ANSWERS_PREEMPTED)


async def test_who_was_given_fewer_tokens_is_next() -> None:
    node = Node()
    for tenant in ("long", "long", "long", "short", "short", "short", "short"):
        await node.send(tenant)
    order = [await node.end(tokens=400)]
    for _ in range(6):
        tenant = node.source.calls[-1].request.turns[-1].text.split()[0]
        order.append(await node.end(tokens=400 if tenant == "long" else 100))
    assert order == ["long", "short", "short", "short", "short", "long", "long"]


async def test_a_tenant_s_weight_is_its_record_s() -> None:
    node = Node()
    for tenant in ("light", "heavy"):
        for _ in range(8):
            await node.send(tenant)
    order = [await node.end(tokens=100) for _ in range(8)]
    assert (order.count("heavy"), order.count("light")) == (6, 2)
    await node.task.leave()


async def test_the_tokens_of_an_answer_that_runs_count_before_it_ends() -> None:
    node = Node(places=2)
    await node.send("long")
    node.source.calls[-1].push(*["x"] * 1_000)  # more than is expected of an answer
    await node.send("short")
    for tenant in ("long", "short", "short"):
        await node.send(tenant)
    node.task.clock.turn(1.0)
    assert await node.end(tokens=400) == "short"
    assert await node.end() == "short", "though the other one's answer has not ended"
    await node.task.leave()


async def test_the_model_s_own_count_replaces_the_estimate() -> None:
    node = Node()
    for tenant in ("a", "b", "a", "b", "b"):
        await node.send(tenant)
    assert await node.end(usage=Usage(prompt_tokens=1_000, completion_tokens=50)) == "a"
    order = [await node.end(tokens=10) for _ in range(4)]
    assert order == ["b", "b", "b", "a"]


async def test_urgent_messages_come_first_whatever_their_tenants_were_given() -> None:
    node = Node()
    for tenant in ("urgent", "later", "other", "urgent"):
        await node.send(tenant)
    order = [await node.end(tokens=100) for _ in range(4)]
    assert order == ["urgent", "urgent", "other", "later"]


async def test_a_message_may_be_less_urgent_than_its_tenant_and_never_more() -> None:
    node = Node()
    await node.send("first")
    await node.send("urgent", BATCH)
    await node.send("later", INTERACTIVE)
    await node.send("other")
    order = [await node.end() for _ in range(4)]
    assert order == ["first", "other", "urgent", "later"]


async def test_of_a_tenant_the_message_wanted_first_comes_first() -> None:
    node = Node()
    for wanted_ms in (None, None, 500, 100):
        await node.send("t", MessageTerms(slo_ttft_ms=wanted_ms))
    for _ in range(4):
        await node.end()
    asked = [call.request.turns[-1].text for call in node.source.calls]
    assert asked == ["t 1", "t 4", "t 3", "t 2"]


async def test_who_has_many_answers_without_a_token_comes_after_others() -> None:
    node = Node(places=4, prefills_per_tenant=2)
    for _ in range(6):
        await node.send("many")
    node.task.clock.turn(1.0)
    for call in node.source.calls[2:]:
        call.push("x")
    # It was given less, but two of its answers are without a token.
    for _ in range(2):
        await node.send("few")
    node.source.calls[2].push(*["x"] * 3)
    node.task.clock.turn(1.0)
    node.source.calls[3].finish()
    await settle()
    assert node.source.calls[-1].request.turns[-1].text.startswith("few")
    await node.task.leave()


async def test_while_another_tenant_may_come_prompts_are_given_one_after_the_other() -> None:
    node = Node(places=8)
    await node.send("quiet")
    await node.end(tokens=5)
    for _ in range(4):
        await node.send("greedy", tokens=LONG_PROMPT)
    assert node.asked == ["quiet", "greedy"], "though there are places"
    await node.send("quiet", tokens=100)
    assert node.asked == ["quiet", "greedy", "quiet"], "it was given least, and waits for nobody"
    await node.first_token(of := 1)
    assert node.asked[of + 2 :] == ["greedy"], "the next one"
    await node.task.leave()


async def test_a_failed_call_lets_the_next_prompt_begin() -> None:
    node = Node(places=8)
    await node.send("quiet")
    await node.end(tokens=5)
    for _ in range(2):
        await node.send("greedy", tokens=LONG_PROMPT)
    await node.task.orchestrator.cancel(await node.send("greedy", tokens=LONG_PROMPT))
    await node.end()
    assert node.asked == ["quiet", "greedy", "greedy"]
    await node.task.leave()


async def test_prompts_are_given_at_once_where_no_other_tenant_may_come() -> None:
    alone = Node(places=8)
    for _ in range(4):
        await alone.send("greedy", tokens=PROMPT)
    assert alone.asked == ["greedy"] * 4
    await alone.task.leave()
    long_ago = Node(places=8)
    await long_ago.send("quiet")
    await long_ago.end(tokens=5)
    long_ago.task.clock.turn(61.0)
    for _ in range(4):
        await long_ago.send("greedy", tokens=PROMPT)
    assert long_ago.asked == ["quiet", *["greedy"] * 4]
    await long_ago.task.leave()


async def _node_whose_model_has_eight_slots() -> Node:
    """All are taken by one tenant, and four more of its calls have waited there."""
    node = Node(places=1_000)
    for call in range(6):  # what is usual
        await node.send("quiet")
        await node.first_token(call)
        await node.end()
    for call in range(6, 14):
        await node.send("greedy")
        await node.first_token(call)
    for _ in range(4):
        await node.send("greedy")
    for call in range(6, 10):
        node.task.clock.turn(2.0)
        node.source.calls[call].finish()
        await settle()
        await node.first_token(call + 8)
    assert node.task.metrics._gauges[catalogue.MODEL_LIMIT.name]() == 8
    return node


async def test_a_model_s_slots_are_found_and_what_is_more_waits_here() -> None:
    node = await _node_whose_model_has_eight_slots()
    await node.send("quiet")
    for _ in range(5):
        await node.send("greedy")
    assert len(node.asked) == 18
    node.source.calls[-1].finish()
    await settle()
    assert node.asked[18:] == ["quiet"], "the others leave one slot free for whoever comes"
    await node.task.leave()


async def test_an_answer_whose_readers_pause_keeps_nobody_from_a_slot() -> None:
    node = await _node_whose_model_has_eight_slots()
    stream = await node.send("quiet")
    assert len(node.asked) == 18
    running = next(it for it in node.streams if it.tokens and not it.state.terminal)
    assert running.backpressure._on_pause is not None
    running.backpressure._on_pause(True)
    await settle()
    assert node.asked[18:] == ["quiet"]
    assert not stream.state.terminal
    await node.task.leave()


async def test_where_there_is_one_tenant_none_gives_its_place_up_for_a_slot() -> None:
    node = Node(places=1_000, prefills_per_tenant=1)
    node.task.tenants.replace(())
    for call in range(20):
        await node.send("alone")
        await node.first_token(call)
    for _ in range(2):
        await node.send("alone")
    assert (len(node.asked), node.task.workload.generations.queued) == (21, 1)
    assert node.streams[0].backpressure._on_pause is not None
    node.streams[0].backpressure._on_pause(True)
    await settle()
    assert node.task.metrics._gauges[catalogue.GENERATIONS_PARKED.name]() == 0
    await node.task.leave()


async def test_an_answer_that_was_held_goes_on_whatever_is_in_prefill() -> None:
    node = Node(places=2)
    await node.send("quiet")
    await node.end(tokens=5)
    held = await node.send("later")
    node.source.calls[1].push(*["x"] * 9_000)
    node.task.clock.turn(1.0)
    await node.send("urgent")
    await node.first_token(2)
    await node.send("urgent", tokens=LONG_PROMPT)
    assert held.paused
    node.source.calls[2].finish()
    await settle()
    assert not held.paused, "its prompt was computed long ago"
    await node.task.leave()


async def test_no_answer_is_held_for_one_that_waits_for_other_prompts() -> None:
    node = Node(places=2)
    await node.send("quiet")
    await node.end(tokens=5)
    await node.send("later")
    await node.first_token(1)
    for _ in range(2):
        await node.send("urgent", tokens=LONG_PROMPT)
    assert (node.asked.count("urgent"), node.held) == (1, 0)
    await node.first_token(2)
    assert (node.asked.count("urgent"), node.held) == (2, 1)
    await node.task.leave()


async def test_nor_where_all_others_wait_already() -> None:
    node = Node(places=6)
    for tenant in "abababab":
        await node.send(tenant, tokens=PROMPT)
    assert sorted(node.asked) == [*"aaabbb"], "by turns, one that waits behind another one"
    await node.task.leave()
    await node.task.leave()


async def test_the_wait_is_told_by_class() -> None:
    node = Node()
    await node.send("urgent")
    await node.send("later")
    await node.end(tokens=5)
    await node.end(tokens=5)
    waits = node.task.metrics.divided(catalogue.QUEUE_WAIT).by_label
    assert {name: waits[name].count for name in waits} == {"interactive": 1, "batch": 1}
    # A batch answer waits for the others by design, and must not raise their alarms.
    for metric in (catalogue.QUEUE_WAIT, catalogue.FIRST_TOKEN):
        assert node.task.metrics.distribution(metric).count == 1
    service = node.task.metrics.labelled(catalogue.SERVICE_CHARGED).by_labels
    # `urgent 1` and `later 2`: 11 tokens each, and five of the answer twice.
    assert service == {("urgent",): 21, ("later",): 21}


# -- held ------------------------------------------------------------------------------------------


async def test_a_batch_answer_gives_its_place_to_an_interactive_one_and_goes_on() -> None:
    node = Node()
    batch = await node.send("later")
    reader = node.task.read(batch)
    slow = node.source.calls[0]
    slow.push("one ")
    urgent = await node.send("urgent")
    assert (urgent.state, slow.sink.paused, node.held) == (ResponseState.STREAMING, True, 1)
    assert await node.end() == "urgent"
    assert not slow.sink.paused
    slow.push("two")
    slow.finish()
    await settle()
    node.task.clock.turn(0.5)
    assert (batch.state, batch.log.text) == (ResponseState.COMPLETED, "one two")
    assert reader.held.text == "one two"
    node.task.assert_idle()


@pytest.mark.parametrize("tenant", ["later", "other"])
async def test_it_is_held_for_interactive_ones_alone(tenant: str) -> None:
    node = Node()
    await node.send("later")
    waiting = await node.send(tenant)
    assert (waiting.state, node.held) == (ResponseState.QUEUED, 0)
    await node.task.leave()


async def test_one_that_is_held_is_not_given_up_for_its_wait_and_comes_before_later_ones() -> None:
    node = Node(queue_deadline_seconds=5, lease_seconds=60)
    batch = await node.send("later")
    node.task.read(batch)
    await node.send("urgent")
    gives_up = await node.send("later")
    node.task.clock.turn(10.0)
    assert (batch.state, gives_up.state) == (ResponseState.STREAMING, ResponseState.ERROR)
    waiting = await node.send("later")
    assert await node.end() == "urgent"
    assert (batch.paused, waiting.state) == (False, ResponseState.QUEUED)
    await node.task.leave()


async def test_one_that_is_held_and_read_by_nobody_goes_on_too() -> None:
    node = Node()
    batch = await node.send("later")
    call = node.source.calls[0]
    await node.send("urgent")
    batch.backpressure.record_stored(0)
    assert await node.end() == "urgent"
    assert not call.sink.paused
    await node.task.leave()


async def test_no_more_are_held_than_may_be_parked() -> None:
    node = Node(places=3, parked_responses=2)
    batch = [await node.send("later") for _ in range(3)]
    urgent = [await node.send("urgent") for _ in range(3)]
    assert [stream.paused for stream in batch] == [False, True, True]
    assert [stream.state for stream in urgent][2] is ResponseState.QUEUED
    await node.task.leave()


async def test_one_that_has_its_turn_among_urgent_ones_keeps_its_place_for_a_second() -> None:
    node = Node()
    batch = await node.send("later")
    node.task.read(batch)
    for _ in range(25):
        await node.send("urgent")
    while batch.paused:
        assert await node.end() == "urgent"
    assert node.held == 1
    assert node.task.workload.generations.queued
    node.task.clock.turn(1.1)
    node.task.workload.sweep(node.task.clock.now)
    assert (batch.paused, node.held) == (True, 2)
    await node.task.leave()


async def test_one_that_is_held_can_be_cancelled() -> None:
    node = Node()
    batch = await node.send("later")
    await node.send("urgent")
    await node.task.orchestrator.cancel(batch)
    await settle()
    assert batch.state is ResponseState.CANCELLED
    await node.end()
    node.task.assert_idle()


async def test_a_new_message_takes_no_place_for_others_before_who_was_given_less() -> None:
    node = Node(places=8)
    for tenant in ("light", *["heavy"] * 8):
        await node.send(tenant)
    for call in range(8):
        await node.first_token(call)
    node.source.calls[0].push(*["x"] * 1_000)
    node.task.clock.turn(1.0)
    await node.send("light")
    assert len(node.source.calls) == 8, "the ninth place is for who was given less than heavy"
    await node.send("new")
    assert node.source.calls[-1].request.turns[-1].text.startswith("new")
    await node.task.leave()


async def test_while_all_are_left_to_other_tasks_none_of_those_that_wait_begins() -> None:
    node = Node(places=8)
    await node.send("quiet")
    await node.end(tokens=5)
    begun = await node.send("greedy", tokens=LONG_PROMPT)
    waiting = [await node.send("greedy", tokens=LONG_PROMPT) for _ in range(3)]
    generations = node.task.workload.generations
    next(iter(generations)).upstream.limiter._end_prefill(begun.response_id)
    generations.hand_over_all()
    assert [stream.state for stream in waiting] == [ResponseState.QUEUED] * 3
    await node.task.leave()


async def test_what_is_expected_of_an_answer_counts_while_it_has_a_place() -> None:
    node = Node()
    batch = await node.send("later")
    node.task.read(batch)
    counters = node.task.workload.generations.charges.counters
    assert counters.of("later") > counters.served["later"]
    await node.send("urgent")
    assert (batch.paused, counters.of("later")) == (True, counters.served["later"])
    await node.end()
    assert counters.of("later") > counters.served["later"]
    await node.task.leave()
    assert counters.of("later") == counters.served["later"]


# -- several tasks ---------------------------------------------------------------------------------


async def several(count: int) -> list[Node]:
    """Tasks that share their stores, each with one place."""
    shared, limits = Shared(), Limits(generations_per_node=1, lease_seconds=60)
    return [Node(task=await Task.join(shared, f"task-{n}", limits)) for n in range(count)]


async def pass_seconds(node: Node, seconds: int) -> None:
    for _ in range(seconds):
        node.task.clock.turn(1.0)
        await settle()


async def test_within_a_second_or_two_what_other_tasks_gave_a_tenant_counts() -> None:
    here, there = await several(2)
    for node in (here, there):
        await node.send("first")
        for tenant in ("greedy", "greedy", "modest", "modest"):
            await node.send(tenant)
    await pass_seconds(there, 2)
    await there.end()
    there.source.calls[-1].push(*["x"] * 500)
    await pass_seconds(there, 3)
    order = [await here.end(tokens=10) for _ in range(5)]
    assert order == ["first", "modest", "modest", "greedy", "greedy"]
    for node in (here, there):
        await node.task.leave()


async def test_what_others_tell_is_charged_over_some_seconds_and_all_of_it() -> None:
    (node,) = await several(1)
    charges = node.task.workload.generations.charges
    charges.charge_other_nodes(Activity("t", "", service=1_000))
    assert charges.counters.of("t") == 400
    for _ in range(30):
        charges.charge_other_nodes(Activity("t", ""))
    assert charges.counters.of("t") == pytest.approx(1_000, abs=1)
    await node.task.leave()


async def test_who_is_compared_no_more_is_charged_the_rest_at_once() -> None:
    (node,) = await several(1)
    charges = node.task.workload.generations.charges
    charges.charge_other_nodes(Activity("t", "", service=1_000))
    assert not charges.charge_compared()
    assert charges.counters.of("t") == 1_000
    await node.task.leave()


async def test_where_nobody_waits_or_one_tenant_is_alone_nothing_is_told() -> None:
    here, there = await several(2)
    await here.send("alone")
    here.source.calls[-1].push(*["x"] * 500)
    await pass_seconds(here, 3)
    there.task.tenants.replace(())
    for tenant in ("a", "b", "a"):
        await there.send(tenant)
    await pass_seconds(there, 3)
    shared = here.task.shared
    reports = await shared.node_reports.read_all(shared.clock.now)
    assert not any(report.activity for report in reports)
    for node in (here, there):
        await node.task.leave()
