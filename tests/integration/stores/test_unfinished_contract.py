"""What the port of the response store promises about the responses that a task has not
finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from evenflow.stream_core.stores.response_store import Lease
from tests.integration.stores.stores import (
    NOW,
    Stores,
    completed,
    lease_of,
    new_channel,
    new_message,
    new_name,
)


async def left_by(stores: Stores, owner: str, wanted: Collection[Lease]) -> None:
    """Return when these are the unfinished responses of `owner`: it may take a moment until that
    is known.
    """
    ids = sorted(lease.response_id for lease in wanted)
    for _ in range(100):
        found = sorted(await stores.of_another_task().unfinished(owner))
        if found == ids:
            return
        await asyncio.sleep(0.05)
    assert found == ids


async def test_what_a_task_has_accepted_and_not_finished(stores: Stores) -> None:
    owner, other = new_name("task"), new_name("task")
    await left_by(stores, owner, [])
    leases, others = [await stores.begin(owner) for _ in range(5)], [await stores.begin(other)]
    await stores.write(leases[0], 0, ["a"])
    await left_by(stores, owner, leases)
    await left_by(stores, other, others)
    for lease in leases[1:3]:
        await stores.responses.finish(lease, completed(0), NOW + 300)
    await left_by(stores, owner, [leases[0], *leases[3:]])


async def test_a_message_that_is_accepted_again_is_not_unfinished_again(stores: Stores) -> None:
    channel, message = new_channel(), new_message(None, owner=new_name("task"))
    lease = await stores.sessions.accept(channel, message, NOW)
    await stores.responses.finish(lease, completed(0), NOW + 300)
    await stores.sessions.accept(channel, message, NOW)
    await left_by(stores, message.owner, [])


async def test_what_is_taken_over_is_its_new_owners(stores: Stores) -> None:
    owner, taker = new_name("task"), new_name("task")
    first, second = await stores.begin(owner), await stores.begin(owner)
    new = lease_of(await stores.of_another_task().take_over(first.response_id, taker, NOW))
    assert new is not None
    await left_by(stores, owner, [second])
    await left_by(stores, taker, [new])
    await stores.responses.finish(new, completed(0), NOW + 300)
    await left_by(stores, taker, [])


async def test_leases_have_no_say_in_it(stores: Stores) -> None:
    await stores.responses.renew(owner := new_name("task"), NOW + 10)
    lease = await stores.begin(owner)
    await left_by(stores, owner, [lease])
    await stores.responses.release(owner)
    await left_by(stores, owner, [lease])
    await stores.responses.forget(owner)
    await left_by(stores, owner, [lease])


async def test_many(stores: Stores) -> None:
    owner = new_name("task")
    await left_by(stores, owner, [await stores.begin(owner) for _ in range(40)])
