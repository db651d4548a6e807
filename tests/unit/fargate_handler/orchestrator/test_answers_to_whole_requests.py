"""Messages that bring their conversation: what the model is asked, and what is remembered of
them.
"""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.fargate_handler.orchestrator.whole_request import (
    IngestEvent,
    WholeRequest,
    repeatable_channel,
    single_channel,
)
from evenflow.fargate_handler.token_sources.port import CallerInfo, ModelOptions, ModelRequest
from evenflow.stream_core.base.channel import COMPLETION, KEYED_COMPLETION, Channel
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")

_REQUEST = WholeRequest(
    (Turn("system", "s"), Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c" * 50_000)),
    ModelOptions(max_tokens=5, stop=("x",)),
)
_AGAIN = repeatable_channel("acme", "key")
_ONCE = single_channel("acme", "unique")
_KINDS = {_AGAIN: KEYED_COMPLETION, _ONCE: COMPLETION}


class Node:
    def __init__(self) -> None:
        self.task = Task.alone(fallback_text="The model is away.")
        self.source, self.orchestrator = self.task.source, self.task.orchestrator

    async def send(self, channel: Channel) -> Submission:
        event = IngestEvent(channel, "m", None, _REQUEST.to_text(), kind=_KINDS[channel])
        submission = await self.orchestrator.submit(event)
        await settle()
        return submission


@pytest.mark.parametrize("channel", [_AGAIN, _ONCE])
async def test_the_model_is_asked_what_the_request_says(channel: Channel) -> None:
    node = Node()
    stream = (await node.send(channel)).stream
    (call,) = node.source.calls
    key = f"{stream.response_id}:1:1"
    # Longer than the history that a session may have: it is not cut.
    assert call.request == ModelRequest(
        channel.agent,
        _REQUEST.turns,
        1,
        "",
        key,
        _REQUEST.options,
        caller=CallerInfo(tenant=channel.tenant, message_id=call.request.caller.message_id),
    )
    call.finish()
    await settle()
    assert stream.state is ResponseState.COMPLETED


async def test_a_program_is_given_no_ready_made_answer() -> None:
    node = Node()
    stream = (await node.send(_ONCE)).stream
    for attempt in range(2):
        node.source.calls[attempt].fail(UpstreamFailed("it broke", code="upstream_failed"))
        await settle()
    assert (stream.state, stream.log.text, stream.degraded) == (ResponseState.ERROR, "", False)


async def test_what_can_come_again_is_known_again_and_what_cannot_is_forgotten() -> None:
    node = Node()
    streams = []
    for channel in (_AGAIN, _ONCE):
        streams.append((await node.send(channel)).stream)
        assert node.orchestrator.last_message_id(channel) == "m"
        node.source.calls[-1].push("yes")
        node.source.calls[-1].finish()
        await settle()
    assert await node.send(_AGAIN) == Submission(streams[0], duplicate=True)
    assert node.orchestrator.last_message_id(_ONCE) is None
    assert streams[1].log.text == "yes"
