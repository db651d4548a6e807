"""LangChain with Anthropic's model."""

from __future__ import annotations

from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage
from scenarios import Server, run


def chat(server: Server) -> ChatAnthropic:
    return ChatAnthropic(
        model=server.model,
        api_key="sk-ant-anything",
        base_url=server.url.removesuffix("/v1"),
        max_tokens=1000,
        max_retries=0,
    )


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


async def stream(server: Server) -> Any:
    parts = chat(server).astream(server.question("text"))
    return "".join([str(part.text) async for part in parts])


async def tools(server: Server) -> Any:
    bound = chat(server).bind_tools([get_weather])
    asked = HumanMessage(server.question("weather"))
    called = await bound.ainvoke([asked])
    (call,) = called.tool_calls
    result = ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"])
    return [call["args"], str((await bound.ainvoke([asked, called, result])).text)]


async def too_long(server: Server) -> Any:
    """Whether it is told that the conversation is too long, which an agent then shortens."""
    try:
        await chat(server).ainvoke(server.question("too-long"))
    except ContextOverflowError:
        return True
    return False


if __name__ == "__main__":
    run(globals())
