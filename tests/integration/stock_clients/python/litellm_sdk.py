"""LiteLLM as a client."""

from __future__ import annotations

from typing import Any

import litellm
from pydantic import BaseModel
from side_by_side import Server, run
from tools import TOOLS, result_of


class Person(BaseModel):
    name: str
    age: int


async def asked(server: Server, messages: list[Any], **options: Any) -> Any:
    where = {"api_base": server.url, "api_key": server.key}
    return await litellm.acompletion(
        f"openai/{server.model}", messages=messages, **where, **options
    )


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def told(answer: Any) -> dict[str, Any]:
    (choice,) = answer.choices
    message = choice.message
    calls = [
        (call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()
    ]
    usage = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    return {
        "text": message.content,
        "calls": calls,
        "usage": usage,
        "finish_reason": choice.finish_reason,
    }


async def whole(server: Server) -> Any:
    return told(await asked(server, [user(server.question("text"))]))


async def stream(server: Server) -> Any:
    chunks = [
        chunk async for chunk in await asked(server, [user(server.question("text"))], stream=True)
    ]
    return told(litellm.stream_chunk_builder(chunks))


async def two_turns(server: Server) -> Any:
    messages: list[Any] = [user(server.question("turns"))]
    first = await asked(server, messages)
    messages += [first.choices[0].message.model_dump(), user("And then?")]
    return [told(first), told(await asked(server, messages))]


async def tools(server: Server) -> Any:
    messages: list[Any] = [user(server.question("tools"))]
    first = await asked(server, messages, tools=TOOLS)
    called = first.choices[0].message
    messages += [
        called,
        *(
            {"role": "tool", "tool_call_id": call.id, "content": result_of(call.function.name)}
            for call in called.tool_calls
        ),
    ]
    return [told(first), told(await asked(server, messages, tools=TOOLS))]


async def tools_streamed(server: Server) -> Any:
    messages = [user(server.question("tools"))]
    chunks = [chunk async for chunk in await asked(server, messages, tools=TOOLS, stream=True)]
    return told(litellm.stream_chunk_builder(chunks))


async def structured_output(server: Server) -> Any:
    return told(await asked(server, [user(server.question("person"))], response_format=Person))


async def reasoning(server: Server) -> Any:
    return (
        (await asked(server, [user(server.question("reasoning"))]))
        .choices[0]
        .message.reasoning_content
    )


async def silence_within(server: Server) -> Any:
    chunks = await asked(server, [user(server.question("silence-within"))], stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])


async def too_long(server: Server) -> Any:
    return told(await asked(server, [user(server.question("too-long"))]))


if __name__ == "__main__":
    run(globals())
