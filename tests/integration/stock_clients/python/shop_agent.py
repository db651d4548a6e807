"""The agent of `examples/pydantic_ai_backend.py` with a script in the place of a paid model: for
the README's picture.
"""

import asyncio
import re
from collections.abc import AsyncIterator

from pydantic_ai import messages as ai
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

from examples.pydantic_ai_backend import agent, app

__all__ = ["app"]

_THOUGHT = (
    "They want to come today, and to buy two. I don't know how many are left: our stock does. "
    "I ask it before I promise anything."
)
_TEXT = (
    "Yes, come today: we have **7 city bikes** in the shop. Two of them are yours if you are here "
    "by six."
)
_WORD = re.compile(r"\s*\S+")
_GAP_SECONDS = 0.07


async def script(
    turns: list[ai.ModelMessage], _: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
    """First the model thinks and calls the tool, then it answers."""
    if isinstance(turns[-1].parts[-1], ai.ToolReturnPart):
        for word in _WORD.findall(_TEXT):
            await asyncio.sleep(_GAP_SECONDS)
            yield word
        return
    for word in _WORD.findall(_THOUGHT):
        await asyncio.sleep(_GAP_SECONDS)
        yield {0: DeltaThinkingPart(content=word)}
    yield {1: DeltaToolCall("in_stock", '{"item": "city bikes"}', tool_call_id="call_1")}


agent.model = FunctionModel(stream_function=script)
