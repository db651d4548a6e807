"""LangChain's chat model."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from side_by_side import Server, run
from tools import PIXEL, get_time, get_weather, result_of

TOOLS = [tool(get_weather), tool(get_time)]


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def chat(server: Server, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.url, api_key=server.key, model=server.model, **options)


def told(message: Any) -> dict[str, Any]:
    finish_reason = message.response_metadata.get("finish_reason")
    calls = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    return {
        "text": message.content,
        "calls": calls,
        "usage": message.usage_metadata,
        "finish_reason": finish_reason,
    }


async def invoke(server: Server) -> Any:
    return told(
        await chat(server).ainvoke(
            [SystemMessage("Be brief."), HumanMessage(server.question("text"))]
        )
    )


async def stream(server: Server) -> Any:
    whole: Any = None
    async for chunk in chat(server).astream(server.question("text")):
        whole = chunk if whole is None else whole + chunk
    return told(whole)


async def bind_tools(server: Server) -> Any:
    model = chat(server).bind_tools(TOOLS)
    messages: list[Any] = [HumanMessage(server.question("tools"))]
    called: AIMessage = await model.ainvoke(messages)
    results = [
        ToolMessage(result_of(call["name"]), tool_call_id=call["id"]) for call in called.tool_calls
    ]
    return [told(called), told(await model.ainvoke([*messages, called, *results]))]


async def structured_output(server: Server) -> Any:
    return (
        await chat(server).with_structured_output(Person).ainvoke(server.question("person"))
    ).model_dump()


async def structured_output_by_tool(server: Server) -> Any:
    model = chat(server).with_structured_output(Person, method="function_calling")
    return (await model.ainvoke(server.question("person"))).model_dump()


async def json_mode(server: Server) -> Any:
    return (
        await chat(server)
        .with_structured_output(None, method="json_mode")
        .ainvoke(server.question("person"))
    )


async def named(server: Server) -> Any:
    return told(await chat(server).ainvoke([HumanMessage(server.question("text"), name="ada")]))


async def image(server: Server) -> Any:
    parts = [
        {"type": "text", "text": server.question("text")},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]
    return told(await chat(server).ainvoke([HumanMessage(parts)]))


async def long_prompt(server: Server) -> Any:
    return told(await chat(server).ainvoke(f"{server.question('text')}: {'rails ' * 25_000}"))


async def two_turns(server: Server) -> Any:
    model, first = chat(server), HumanMessage(server.question("turns"))
    answer = await model.ainvoke([first])
    return [told(answer), told(await model.ainvoke([first, answer, HumanMessage("And then?")]))]


async def silence_within(server: Server) -> Any:
    return "".join(
        [chunk.content async for chunk in chat(server).astream(server.question("silence-within"))]
    )


async def busy(server: Server) -> Any:
    return told(await chat(server).ainvoke(server.question("busy")))


async def too_long(server: Server) -> Any:
    return told(await chat(server).ainvoke(server.question("too-long")))


if __name__ == "__main__":
    run(globals())
