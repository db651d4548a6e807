"""A limit that is learned holds for one tenant too: what is urgent doesn't wait in the engine."""

from __future__ import annotations

import pytest

from bench.fairness import virtual_time
from bench.fairness.engine import Costs
from bench.fairness.load import Order
from evenflow.stream_core.base.agents import NO_TERMS, MessageTerms, ServiceClass

BATCH = MessageTerms(service_class=ServiceClass.BATCH)
ORDER = Order("public", prompt=16, answer=60)


def first_token(places: int | None, nodes: int = 1) -> float:
    """Seconds until the first token of a question behind 40 of batch, of an engine with 4 slots."""

    async def ask(spread: virtual_time.Spread) -> float:
        async with virtual_time.system(
            spread, nodes, places, records=(), costs=Costs(sequences=4)
        ) as system:
            batch = [await system.ask(ORDER, BATCH) for _ in range(40)]
            standard = await system.ask(ORDER, NO_TERMS)
            for request in (standard, *batch):
                await request.ended
            return standard.answered().first_token

    return virtual_time.run(1, ask)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_standard_question_is_not_behind_forty_of_batch(nodes: int) -> None:
    """It waits for the eight calls that each node starts before it knows the limit."""
    assert first_token(None, nodes) < 2.0 * nodes


def test_a_limit_set_by_hand_is_not_much_better() -> None:
    assert first_token(4) < 1.0
