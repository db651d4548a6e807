"""Requests that are too large for an item of the ledger: kept beside it, so that another task
can ask the same.
"""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.failover import OWNERS_EXHAUSTED
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest, repeatable_channel
from evenflow.stream_core.base.channel import KEYED_COMPLETION
from evenflow.stream_core.base.errors import Overloaded, TooLarge
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT
from tests.unit.fargate_handler.orchestrator.kept_apart import KeptApart
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.settle import settle

_CHANNEL = repeatable_channel("t", "key")
_LARGE = WholeRequest((Turn("system", "ä" * 500_000), Turn("user", "x")))


async def _node(texts: KeptApart | None) -> tuple[Shared, Task]:
    shared = Shared()
    shared.large_texts = texts
    return shared, await Task.join(shared, "a")


async def _successor(shared: Shared, task: Task) -> Task:
    """The task is lost, and this one finds what it left."""
    task.cut_off()
    successor = await Task.join(shared, "b")
    await task.clock.pass_time(2.9, step=0.05)
    return successor


async def test_it_stands_beside_the_ledger() -> None:
    shared, task = await _node(texts := KeptApart())
    stream = (
        await task.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    ).stream
    (entry,) = await shared.ledger(_CHANNEL)
    assert (entry.text, entry.text_name) == ("", stream.response_id)
    assert texts.texts == {stream.response_id: _LARGE.to_text()}
    await settle()
    assert task.source.calls[0].request.turns == _LARGE.turns
    await task.leave()


async def test_what_is_small_enough_stands_in_it() -> None:
    shared, task = await _node(texts := KeptApart())
    room = LARGEST_ITEM_TEXT - len(WholeRequest((Turn("user", ""),)).to_text())
    text = WholeRequest((Turn("user", "x" * room),)).to_text()
    assert len(text) == LARGEST_ITEM_TEXT
    await task.send("m1", text=text, channel=_CHANNEL, kind=KEYED_COMPLETION)
    (entry,) = await shared.ledger(_CHANNEL)
    assert (entry.text, entry.text_name, texts.texts) == (text, None, {})
    await task.answer("ok")
    (entry,) = await shared.ledger(_CHANNEL)
    assert (entry.ended, entry.outcome) == (True, ""), "its session has no readers"
    await task.leave()


async def test_another_task_goes_on_with_all_of_it() -> None:
    shared, lost = await _node(texts := KeptApart())
    stream = (
        await lost.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    ).stream
    await settle()
    task = await _successor(shared, lost)
    await task.clock.pass_time(1.0)
    assert task.source.calls[0].request.turns == _LARGE.turns
    assert texts.read == [stream.response_id]
    await task.leave()


async def test_another_task_that_knows_the_session_already_goes_on_with_all_of_it() -> None:
    shared, lost = await _node(KeptApart())
    task = await Task.join(shared, "b")
    await lost.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    await settle()
    assert (
        await task.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    ).duplicate
    lost.cut_off()
    await task.clock.pass_time(12.0, step=0.05)
    assert task.source.calls[0].request.turns == _LARGE.turns
    await task.leave()


async def test_while_it_cannot_be_read_the_answer_waits() -> None:
    shared, lost = await _node(texts := KeptApart())
    await lost.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    await settle()
    texts.reachable = False
    task = await _successor(shared, lost)
    await task.clock.pass_time(2.0)
    assert not task.source.calls
    texts.reachable = True
    await task.clock.pass_time(2.0)
    assert task.source.calls[0].request.turns == _LARGE.turns
    await task.leave()


async def test_when_it_is_no_longer_kept_the_answer_ends() -> None:
    shared, lost = await _node(texts := KeptApart())
    stream = (
        await lost.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    ).stream
    await settle()
    texts.texts.clear()
    task = await _successor(shared, lost)
    await task.clock.pass_time(2.0)
    ending = (await shared.head(stream.response_id)).ending
    assert ending is not None
    assert ending.state is ResponseState.ERROR
    assert ending.error is not None
    assert ending.error["code"] == OWNERS_EXHAUSTED
    await task.leave()


async def test_where_it_cannot_be_kept_it_is_not_accepted() -> None:
    shared, task = await _node(texts := KeptApart())
    texts.reachable = False
    with pytest.raises(Overloaded) as refused:
        await task.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    assert refused.value.code == "store_unavailable"
    assert await shared.ledger(_CHANNEL) == []
    await task.leave()


async def test_without_a_place_it_is_refused_by_its_size() -> None:
    shared, task = await _node(None)
    with pytest.raises(TooLarge, match="EVENFLOW_REQUESTS_BUCKET"):
        await task.send("m1", text=_LARGE.to_text(), channel=_CHANNEL, kind=KEYED_COMPLETION)
    assert await shared.ledger(_CHANNEL) == []
    await task.leave()


async def test_of_a_message_of_a_chat_it_is_told_again_and_goes_with_its_session() -> None:
    _, task = await _node(texts := KeptApart())
    await task.send("m1", text=(said := "x" * (LARGEST_ITEM_TEXT + 1)))
    await task.answer("ok")
    (message,) = (await task.orchestrator.messages.page(CHANNEL, None, 10)).messages
    assert message.text == said
    kept = dict(texts.texts)
    texts.texts.clear()
    (message,) = (await task.orchestrator.messages.page(CHANNEL, None, 10)).messages
    assert message.text is None
    texts.texts.update(kept)
    await task.orchestrator.end_session(CHANNEL)
    assert texts.texts == {}
    await task.leave()
