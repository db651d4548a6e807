"""The checks between a message and its model: each gives back what it has reserved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import chain

import pytest

from evenflow.fargate_handler.gateway.http.call_intake import CALL_REJECTIONS
from evenflow.fargate_handler.orchestrator import orchestrator
from evenflow.fargate_handler.orchestrator.acceptance import (
    CHECKS,
    STORE_REJECTIONS,
    AcceptanceCheck,
    PendingMessage,
    Rejection,
    Stage,
)
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.http.error_codes import ACCEPTING
from evenflow.stream_core.tenants.charges import Caller
from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.settle import settle

# One of all that can be one, so that what one rejection leaves behind rejects the next message.
_LIMITS = Limits(
    store_interval_ms=150,
    messages_per_second=100_000,
    messages_waiting_per_session=1,
    messages_in_flight_per_session=1,
    messages_in_flight_per_tenant=1,
    generations_per_node=1,
    queue_depth=0,
)
# More than are written to the store at once.
_REJECTED = 70
_BOUNDS = QuotaLimits(
    requests_per_minute=2 * _REJECTED, answers_at_once=1, tokens_per_day=1_000_000
)
_SESSION = Channel("acme", "demo", "s")


def _rejecting(stage: Stage) -> type[AcceptanceCheck]:
    """A check that rejects the first messages, and then none."""
    rejected = iter(range(_REJECTED))

    class RejectsFirst(AcceptanceCheck):
        async def check(self, pending: PendingMessage) -> None:
            if next(rejected, None) is not None:
                raise RateLimited("not yet", code="later")

    RejectsFirst.stage = stage
    return RejectsFirst


async def _reserved(task: Task) -> tuple[object, ...]:
    """All that messages reserve."""
    await settle()
    return (
        task.workload.memory.requests.bytes,
        task.orchestrator.busy,
        [state.remaining for state in task.quotas.states(Caller("acme"), task.clock.now)],
        await task.shared.usage.reservations("acme"),
    )


@pytest.mark.parametrize("place", range(len(CHECKS)), ids=lambda place: CHECKS[place].__name__)
async def test_what_a_check_has_reserved_is_given_back_when_a_later_one_rejects(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [*CHECKS[: place + 1], _rejecting(CHECKS[place].stage), *CHECKS[place + 1 :]]
    monkeypatch.setattr(orchestrator, "CHECKS", checks)
    shared = Shared()
    shared.tenants.replace([Tenant(id="acme", limits=_BOUNDS)])
    task = await Task.join(shared, limits=_LIMITS)
    before = await _reserved(task)
    async with asyncio.timeout(10):
        for _ in range(_REJECTED):
            with pytest.raises(RateLimited, match="not yet"):
                await task.send("m1", channel=_SESSION)
        assert await _reserved(task) == before
        assert not shared.sessions.network.calls["accept"], "nothing was stored"
        await task.send("m1", channel=_SESSION)
    assert await _reserved(task) != before
    await task.answer("yes")
    await task.leave()


async def test_a_message_that_is_cancelled_while_it_waits_for_the_store_leaves_nothing() -> None:
    task = await Task.join(Shared())
    network = task.shared.sessions.network
    network.hold("accept")
    sending = [
        asyncio.create_task(task.send("m1", channel=CHANNEL._replace(session=f"s{number}")))
        for number in range(100)
    ]
    await settle()
    before = task.workload.memory.requests.bytes
    sending[-1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending[-1]
    assert task.workload.memory.requests.bytes < before
    network.release()
    await asyncio.gather(*sending[:-1])
    assert task.orchestrator.answering == 99
    await task.leave()


def _codes(rejections: Iterable[Rejection], status: int) -> set[str]:
    return {rejection.code for rejection in rejections if rejection.status == status}


@pytest.mark.parametrize(
    ("status", "of_earlier_responses"),
    [(409, ()), (429, ()), (503, ("response_elsewhere", "newer_form"))],
)
def test_the_page_of_checks_has_every_code_with_which_a_message_is_rejected(
    status: int, of_earlier_responses: tuple[str, ...]
) -> None:
    listed = [*chain(*(check.rejections for check in CHECKS)), *STORE_REJECTIONS, *CALL_REJECTIONS]
    assert _codes(listed, status) >= set(ACCEPTING[status]) - set(of_earlier_responses)
