"""Answers whose readers all pause give their places to others, and lose nothing by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.dialect import REALTIME
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.test_client_credit import Listener
from tests.unit.fargate_handler.orchestrator.controlled_source import SourceCall
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")
LIMITS = Limits(
    generations_per_node=1,
    queue_depth=3,
    batch_tokens=1,
    pause_window_bytes=3,
    messages_per_second=10_000,
    queue_deadline_seconds=20,
    grace_seconds=30,
)


class _ListenerOf(Listener):
    def __init__(self, gateway: Gateway, session: str) -> None:
        self.channel = Channel("public", "demo", session)
        super().__init__(gateway, REALTIME)


class Asking:
    """A session's only client, its only message, and the model that answers it."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self.gateway = gateway
        self.listener = _ListenerOf(gateway, name)

    async def start(self, **fields: object) -> Asking:
        self.response_id = await self.listener.start(**fields)
        return self

    @property
    def call(self) -> SourceCall:
        """Its model, which was called when it had a place."""
        return next(
            call
            for call in self.gateway.source.calls
            if call.request.key.startswith(self.response_id)
        )

    @property
    def has_begun(self) -> bool:
        return any(
            call.request.key.startswith(self.response_id) for call in self.gateway.source.calls
        )

    def push(self, *tokens: str) -> None:
        for token in tokens:
            self.call.push(token)
            self.gateway.clock.turn(0.1)

    def grant(self, entries: int) -> None:
        self.listener.send("credit", response_id=self.response_id, n=entries)

    async def finish(self) -> None:
        self.call.finish()
        await settle()

    @property
    def final(self) -> dict[str, Any] | None:
        return next(iter(self.listener.transport.of_type("final")), None)


async def parked(gateway: Gateway) -> tuple[Asking, Asking]:
    """Two that ask, where there is one place: the first one grants nothing."""
    first = await Asking(gateway, "ses_1").start(credit=0)
    first.push(*"abcd")
    assert first.call.sink.paused
    return first, await Asking(gateway, "ses_2").start()


def parked_now(gateway: Gateway) -> float:
    return gateway.metrics.snapshot().levels[catalogue.GENERATIONS_PARKED.name]


async def test_one_that_grants_no_credit_gives_its_place_to_one_that_waits() -> None:
    _, second = await parked(gateway := Gateway(LIMITS))
    second.push("x")
    assert second.listener.heard() == "x"
    assert parked_now(gateway) == 1


async def test_nobody_waits_and_it_keeps_its_place() -> None:
    gateway = Gateway(LIMITS)
    first = await Asking(gateway, "ses_1").start(credit=0)
    first.push(*"abcd")
    assert parked_now(gateway) == 0
    first.grant(10)
    assert not first.call.sink.paused


async def test_one_that_waits_already_has_the_place_at_the_pause() -> None:
    gateway = Gateway(LIMITS)
    first = await Asking(gateway, "ses_1").start(credit=0)
    second = await Asking(gateway, "ses_2").start()
    first.push("ab")
    await settle()
    assert not second.has_begun, "the model of the first one may still run ahead"
    first.push("cd")
    await settle()
    assert second.has_begun


async def test_with_credit_it_goes_on_when_there_is_a_place_and_nothing_is_lost() -> None:
    first, second = await parked(gateway := Gateway(LIMITS))
    first.grant(100)
    assert first.listener.heard() == "abcd", "what there is needs no place"
    assert first.call.sink.paused
    await second.finish()
    assert parked_now(gateway) == 0
    assert not first.call.sink.paused
    first.push(*"ef")
    await first.finish()
    assert first.listener.heard() == "abcdef"
    assert first.final is not None
    assert first.final["finish_reason"] == "stop"
    assert not gateway.orchestrator.busy


async def test_one_that_pauses_again_waits_for_nothing() -> None:
    first, second = await parked(Gateway(LIMITS))
    first.grant(1)
    third = await Asking(first.gateway, "ses_3").start()
    await second.finish()
    assert first.call.sink.paused
    assert third.has_begun


async def test_a_parked_answer_is_let_go_after_its_own_limit() -> None:
    first, _ = await parked(gateway := Gateway(LIMITS))
    connection = first.listener.connection
    gateway.clock.turn(29.0)
    connection.look_at_readers(gateway.clock.now)
    assert first.listener.transport.close is None
    gateway.clock.turn(1.1)
    connection.look_at_readers(gateway.clock.now)
    assert first.listener.transport.close == (
        4008,
        f"too slow; resume {first.response_id} after -1",
    )
    await gateway.clock.pass_time(29.0, step=1.0)  # the lease is renewed meanwhile
    assert first.call.closed == 0
    await gateway.clock.pass_time(1.1)
    assert first.call.closed == 1, "nobody came back"
    assert parked_now(gateway) == 0


async def test_nobody_reads_a_parked_answer_and_it_asks_for_no_place_until_somebody_does() -> None:
    first, second = await parked(gateway := Gateway(LIMITS))
    first.listener.connection.disconnected()
    assert parked_now(gateway) == 1
    again = Asking(gateway, "ses_1").listener
    again.send("resume", response_id=first.response_id, after=-1)
    await settle()
    assert again.heard() == "abcd"
    assert parked_now(gateway) == 0, "it waits like all others"
    await second.finish()
    first.push("e")
    assert again.heard() == "abcde"


async def test_one_that_goes_on_without_readers_waits_for_a_place_when_they_have_left() -> None:
    gateway = Gateway(LIMITS.model_copy(update={"grace_seconds": None}))
    first, second = await parked(gateway)
    first.listener.connection.disconnected()
    assert parked_now(gateway) == 0
    await second.finish()
    await gateway.clock.pass_time(1.5)  # the store has it
    assert not first.call.sink.paused
    first.push(*"ef")
    await first.finish()
    (stream,) = gateway.orchestrator.responses.of(first.listener.channel)
    assert stream.log.text == "abcdef"


async def test_one_that_waits_too_long_for_a_place_again_ends_with_its_text() -> None:
    first, second = await parked(gateway := Gateway(LIMITS))
    first.grant(100)
    await gateway.clock.pass_time(19.0, step=1.0)
    assert first.final is None
    await gateway.clock.pass_time(5.0, step=1.0)
    assert first.listener.heard() == "abcd"
    assert first.final is not None
    assert first.final["error"]["code"] == "queue_timeout"
    assert "what was delivered was kept" in first.final["error"]["message"]
    assert first.call.closed == 1
    await second.finish()
    assert not gateway.orchestrator.busy


async def test_a_parked_answer_can_be_cancelled() -> None:
    first, _ = await parked(gateway := Gateway(LIMITS))
    first.listener.send("cancel", response_id=first.response_id)
    await settle()
    assert first.final is not None
    assert first.final["finish_reason"] == "cancelled"
    assert parked_now(gateway) == 0


async def test_parked_answers_take_no_room_and_the_first_of_too_many_ends_with_its_text() -> None:
    gateway = Gateway(LIMITS.model_copy(update={"queue_depth": 1, "parked_responses": 2}))
    silent = []
    for number in range(4):
        silent.append(await Asking(gateway, f"ses_{number}").start(credit=0))
        silent[-1].push(*"abcd")
    await settle()
    assert [one.call.closed for one in silent] == [1, 0, 0, 0]
    last = await Asking(gateway, "ses_last").start()
    last.push("x")
    assert last.listener.heard() == "x"
    assert [one.call.closed for one in silent] == [1, 1, 0, 0]
    assert parked_now(gateway) == 2
    for one in silent[:2]:
        one.grant(10)
        assert one.listener.heard() == "abcd"
        assert one.final is not None
        assert one.final["error"]["code"] == "queue_timeout"
        assert "what was delivered was kept" in one.final["error"]["message"]
    for one in silent[2:]:
        one.grant(10)
    refused = _ListenerOf(gateway, "ses_refused")
    refused.send("start", id="m1", text="hi")
    await settle()
    assert refused.last_code() == "queue_full", "those that wait again take the room"
    for one in (last, *silent[2:]):
        await one.finish()
    assert [one.final is not None for one in silent] == [True] * 4
    assert not gateway.orchestrator.busy


_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["push", "push", "grant", "turn", "finish"])),
    max_size=40,
)


@given(_STEPS, st.integers(1, 3))
async def test_places_are_never_exceeded_never_idle_and_no_token_is_lost(
    steps: list[tuple[int, str]], places: int
) -> None:
    gateway = Gateway(LIMITS.model_copy(update={"generations_per_node": places}))
    asking = [await Asking(gateway, f"ses_{n}").start(credit=n % 2) for n in range(4)]
    written = ["" for _ in asking]
    for number, step in steps:
        one = asking[number]
        if step == "grant":
            one.grant(2)
        elif step == "turn":
            gateway.clock.turn(1.0)
        elif one.has_begun and step == "finish":
            await one.finish()
        elif one.has_begun and not one.call.sink.paused and not one.call.end.done():
            one.push("x")
            written[number] += "x"
        await settle()
        going = [one for one in asking if one.has_begun and not one.call.end.done()]
        assert sum(not one.call.sink.paused for one in going) <= places
        waits = any(not one.has_begun for one in asking)
        assert len(going) - parked_now(gateway) == places or not waits
    for one in asking:
        one.grant(1_000)
    for _ in asking:
        for one in asking:
            if one.has_begun:
                await one.finish()
    assert [one.listener.heard() for one in asking] == written
    assert all(one.final for one in asking)
    assert not gateway.orchestrator.busy
