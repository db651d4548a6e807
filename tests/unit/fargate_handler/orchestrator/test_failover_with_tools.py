"""Answers that are more than text, taken over from a lost task."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest, repeatable_channel
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.channel import KEYED_COMPLETION
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task
from tests.unit.settle import settle

_TOOLS = ({"type": "function", "function": {"name": "f"}},)
_CHANNEL = repeatable_channel("t", "key")
_CALLED = Part(PartKind.CALL, id="c", name="f")


@pytest.mark.parametrize(
    ("tools", "said", "prefix"),
    [
        (_TOOLS, ["So ", "far"], "So far"),
        (_TOOLS, ["So ", _CALLED, Part(PartKind.ARGUMENTS, '{"a"')], ""),
        ((), [Part(PartKind.REASONING, "Hm"), "So"], ""),
    ],
)
async def test_a_model_that_continues_goes_on_with_what_it_said_and_begins_all_else_again(
    tools: tuple[dict[str, object], ...], said: list[Content], prefix: str
) -> None:
    shared = Shared()
    a = await Task.join(shared, "a")
    text = WholeRequest((Turn("user", "x"),), ModelOptions(tools=tools)).to_text()
    stream = (await a.send("m1", text=text, channel=_CHANNEL, kind=KEYED_COMPLETION)).stream
    a.read(stream)
    await settle()
    for token in said:
        a.source.calls[0].push(token)
        await a.clock.pass_time(0.2)
    a.cut_off()
    b = await Task.join(shared, "b", None, ControlledSource(continues=True))
    await b.clock.pass_time(4.0, step=0.05)
    request = b.source.calls[0].request
    assert (request.options.tools, request.prefix) == (tools, prefix)
    await b.leave()
