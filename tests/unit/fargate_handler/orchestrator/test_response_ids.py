"""A response is found by its id: no two may ever have the same, also when a session begins anew."""

from __future__ import annotations

from stream_core.limits import Limits
from stream_core.response_state import ResponseState
from tests.unit.fargate_handler.orchestrator.test_orchestrator import LEAVING, Node
from tests.unit.settle import settle


async def test_a_forgotten_session_that_begins_anew_has_new_responses() -> None:
    node = Node(Limits(sessions_per_node=1, responses_held_per_session=8))
    first = (await node.send("m1", session="s")).stream
    await settle()
    node.source.calls[0].finish()
    await settle()
    await node.orchestrator.cancel((await node.send("m1", session="other")).stream)
    await settle()
    # The session was forgotten, its response is still held.
    again = (await node.send("m1", session="s")).stream
    assert again is not first
    assert again.response_id != first.response_id
    node.orchestrator.sweep(node.clock.now + 301.0)
    assert node.orchestrator.responses.get(again.response_id, again.channel) is again
    node.orchestrator.interrupt_all(LEAVING)
    await settle()
    assert again.state is ResponseState.ERROR
    node.orchestrator.sweep(node.clock.now + 1000.0)
    assert len(node.orchestrator.responses) == 0
