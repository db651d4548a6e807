"""Tasks that lose each other, leave and come back, while clients read: each answer is whole,
once, in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.base.channel import Channel, MessageKind
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.response_log import ResponseState, slice_of
from evenflow.stream_core.stores.response_store import StoreUnavailable
from tests.unit.fargate_handler.gateway.browser import Browser
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.orchestrator.reciting_source import RecitingSource, recited
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")

STEP = 0.05
LIMITS = Limits(
    owners_per_response=100,
    grace_seconds=3_600,
    lease_seconds=10,
    messages_per_second=1e5,
    messages_in_flight_per_session=200,
)
ACTIONS = [
    "send",
    "send",
    "read",
    "read",
    "pass",
    "pass",
    "lapse",
    "cut",
    "mend",
    "leave",
    "drop",
    "slow",
    "ill",
    "cancel",
]


class Turmoil:
    """Three tasks, two sessions, as many readers as come."""

    def __init__(self, shared: Shared, *, continues: bool) -> None:
        self.shared = shared
        self.continues = continues
        self.gateways: list[Gateway] = []
        self.browsers: list[Browser] = []
        self.channels = [Channel("t", "demo", name) for name in ("s0", "s1")]
        self.accepted: dict[str, tuple[Channel, str]] = {}
        """Responses by id: whose they are, and the question."""
        self.cancelled: set[str] = set()
        self.named = 0

    async def join(self) -> None:
        """One more task."""
        self.named += 1
        task = await Task.join(
            self.shared, f"n{self.named}", LIMITS, RecitingSource(continues=self.continues)
        )
        self.gateways.append(Gateway(task=task))

    async def do(self, action: str, which: int) -> None:
        gateway = self.gateways[which % len(self.gateways)]
        match action:
            case "send" | "cancel" | "leave":
                if not gateway.task.responses.network.cut:
                    await self.done(asyncio.create_task(getattr(self, action)(gateway, which)))
            case "read" if self.accepted:
                response_id = self.response(which)
                browser = Browser(self.accepted[response_id][0], response_id)
                browser.connect(gateway)
                self.browsers.append(browser)
            case "drop" if self.browsers:
                self.browsers[which % len(self.browsers)].leave()
            case "pass":
                await self.time(which / 10)
            case "lapse":
                await self.time(11.0)
            case "cut" | "mute" | "mend" | "slow" | "ill":
                self.trouble(gateway.task, action, which)

    async def done(self, work: asyncio.Task[None]) -> None:
        """Time passes until `work` is done."""
        while not work.done():
            await self.time(STEP)
        await work

    def response(self, which: int) -> str:
        return list(self.accepted)[which % len(self.accepted)]

    def trouble(self, task: Task, how: str, which: int) -> None:
        """It is cut off, or from the stores only; calls of the stores take their time, or are
        lost on their way.
        """
        networks = (task.responses.network, task.sessions.network)
        match how:
            case "cut":
                task.cut_off()
            case "mute":
                for network in networks:
                    network.cut = True
            case "mend":
                task.reconnect()
            case "slow":
                for network in networks:
                    network.turns = _up_to(Random(which), which % 7)
            case _:
                for network in networks:
                    network.loses = _one_in(Random(which), 2 + which % 7)

    async def cancel(self, gateway: Gateway, which: int) -> None:
        if self.accepted:
            response_id = self.response(which)
            self.cancelled.add(response_id)
            with suppress(EvenflowError):
                await gateway.orchestrator.cancel(
                    await gateway.orchestrator.find(response_id, self.accepted[response_id][0])
                )

    async def send(self, gateway: Gateway, which: int) -> None:
        channel = self.channels[which % 2]
        known = await self.shared.ledger(channel)
        question = f"{channel.session}m{len(known)}:"
        previous = known[-1].message_id if known else None
        event = IncomingMessage(
            channel, question, previous, question, kind=MessageKind(grace_seconds=3_600.0)
        )
        with suppress(EvenflowError):
            submission = await gateway.orchestrator.submit(event)
            self.accepted[submission.stream.response_id] = (channel, question)

    async def leave(self, gateway: Gateway, _which: int) -> None:
        self.gateways.remove(gateway)
        await self.join()
        with suppress(StoreUnavailable):
            await gateway.task.hand_over()
        for connection in gateway.registry:
            connection.close(1001, "this node is leaving")
        gateway.task.shared.peers.cut(gateway.task.address)

    async def time(self, seconds: float) -> None:
        """Time passes, and whoever has no connection comes back somewhere."""
        until = self.shared.clock.now + seconds
        while self.shared.clock.now < until:
            await self.shared.clock.pass_time(STEP, STEP)
            for number, browser in enumerate(self.browsers):
                browser.look()
                if browser.ended is None and not browser.connected:
                    browser.connect(self.gateways[(number + browser.resumed) % len(self.gateways)])
                elif browser.ended is None and browser.refusals:
                    browser.resume()
            for gateway in self.gateways:
                gateway.orchestrator.sweep(self.shared.clock.now)

    async def calm_down(self) -> None:
        for gateway in self.gateways:
            gateway.task.reconnect()
            for network in (gateway.task.responses.network, gateway.task.sessions.network):
                network.turns, network.loses = int, bool
        for _ in range(12):
            await self.time(10.0)
            heads = [await self.shared.head(response_id) for response_id in self.accepted]
            ended = all(head.ending for head in heads) and all(
                browser.ended for browser in self.browsers
            )
            if ended and not any(gateway.orchestrator.busy for gateway in self.gateways):
                return

    async def check(self) -> None:
        for response_id, (channel, question) in self.accepted.items():
            head = await self.shared.head(response_id)
            assert head.ending is not None, "every accepted message has an end"
            stored = slice_of(await self.shared.stored(response_id), 0).text
            (entry,) = [
                entry
                for entry in await self.shared.ledger(channel)
                if entry.response_id == response_id
            ]
            assert entry.ended
            if response_id in self.cancelled and head.ending.state is ResponseState.CANCELLED:
                assert recited(question).startswith(stored)
            else:
                assert head.ending.state is ResponseState.COMPLETED
                assert stored == recited(question)
                assert entry.answer == stored
        for browser in self.browsers:
            assert browser.ended is not None, "every reader hears the end"
            if browser.response_id not in self.cancelled:
                assert browser.text == recited(self.accepted[browser.response_id][1])
        for gateway in self.gateways:
            gateway.task.assert_idle()
            assert not gateway.task.recorder.busy


def _up_to(turns: Random, most: int) -> Callable[[], int]:
    return lambda: turns.randint(0, most)


def _one_in(chance: Random, times: int) -> Callable[[], bool]:
    return lambda: chance.randrange(times) == 0


@given(
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 40)), min_size=12, max_size=30),
    st.booleans(),
)
@pytest.mark.timeout(300)  # it takes seconds, but what fails is made shorter, which takes minutes
@settings(max_examples=settings().max_examples // 4)
async def test_whatever_befalls_the_tasks_every_answer_is_whole_and_every_reader_has_all_of_it(
    actions: list[tuple[str, int]], continues: bool
) -> None:
    turmoil = Turmoil(Shared(), continues=continues)
    for _ in range(3):
        await turmoil.join()
    for action, which in actions:
        await turmoil.do(action, which)
    await turmoil.calm_down()
    await turmoil.check()
