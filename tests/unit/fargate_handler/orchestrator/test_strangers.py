"""However many strangers come with keys of their own: nobody's answer or conversation is lost."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest, repeatable_channel
from evenflow.stream_core.base.channel import KEYED_COMPLETION
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task
from tests.unit.settle import settle

_TEXT = WholeRequest((Turn("user", "x"),)).to_text()
_SMALL = {"sessions_per_node": 20, "responses_held_bytes": 1_048_576}


async def _ask(task: Task, key: str) -> ResponseStream:
    channel = repeatable_channel(CHANNEL.tenant, key)
    return (await task.send("m", text=_TEXT, channel=channel, kind=KEYED_COMPLETION)).stream


@pytest.mark.parametrize("remembered", [10, 10_000])
async def test_strangers_push_nobody_out(remembered: int) -> None:
    task = await Task.join(limits=Limits(expired_responses_remembered=remembered, **_SMALL))
    said = (await task.send("m1")).stream
    await task.answer("Hello.")
    first = await _ask(task, "honest")
    await task.answer("Yes.")
    for number in range(80):
        await _ask(task, f"stranger {number}")
        await task.answer("y" * 20_000)
    await task.clock.pass_time(1.0)
    calls = len(task.source.calls)
    again = await _ask(task, "honest")
    assert (again.response_id, again.log.text) == (first.response_id, "Yes.")
    assert (await task.find(said.response_id)).log.text == "Hello."
    await task.send("m2", "m1", text="And?")
    await settle()
    assert len(task.source.calls) == calls + 1, "only the new message was asked of the model"
    assert [turn.text for turn in task.source.calls[-1].request.turns] == ["hi", "Hello.", "And?"]
    await task.leave()
