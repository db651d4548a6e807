from __future__ import annotations

import pytest

from evenflow.fargate_handler.gateway.openai_responses.endpoint import resumed_after
from evenflow.stream_core.base.errors import Gone, InvalidRequest
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.openai_responses.encoder import (
    Rank,
    closing_number,
    number,
)
from tests.unit.fargate_handler.gateway.changed_hands import ChangedHands

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")


async def _point(here: ChangedHands, sequence_number: int) -> ResumePoint:
    context = here.gateway(here.b).context
    stream = await context.orchestrator.find(here.response_id, here.stream.channel)
    return (await resumed_after(context, stream, sequence_number)).point


@pytest.mark.parametrize("index", [0, 1])
async def test_who_has_a_part_of_an_entry_is_told_the_rest_of_it(index: int) -> None:
    here = await ChangedHands.begin()
    assert await _point(here, number(index, 1, Rank.ITEM_ADDED)) == ResumePoint(index)
    assert await _point(here, number(index, 1, Rank.DELTA)) == ResumePoint(index + 1)


async def test_what_a_lost_task_began_and_did_not_put_on_record_is_not_begun_again() -> None:
    """The reader would have that item twice: the next owner's numbers are larger."""
    here = await ChangedHands.begin()
    await here.lose_a()
    assert await _point(here, number(1, 1, Rank.ITEM_ADDED)) == ResumePoint(1)
    for rank in (Rank.TEXT_DONE, Rank.ITEM_ADDED, Rank.DELTA):
        with pytest.raises(Gone) as refused:
            await _point(here, number(2, 1, rank))
        assert refused.value.code == "response_restarted"


async def test_who_has_some_events_of_the_end_is_told_the_others() -> None:
    here = await ChangedHands.begin()
    here.a.source.calls[-1].finish()
    await here.a.clock.pass_time(1.0)
    for order in (0, 5, 20):
        assert await _point(here, closing_number(1, 1, order)) == ResumePoint(2)
    with pytest.raises(InvalidRequest):
        await _point(here, number(1_000, 1, Rank.DELTA))
