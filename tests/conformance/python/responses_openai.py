"""OpenAI's SDK with its Responses API."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import AsyncOpenAI, NotFoundError
from pydantic import BaseModel
from scenarios import Server, run

_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOLS: Any = [
    {"type": "function", "name": name, "description": name, "parameters": _CITY, "strict": True}
    for name in ("get_weather", "get_time")
]
_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+"
    "M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Person(BaseModel):
    name: str
    age: int


def client_of(server: Server) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.url, api_key="sk-anything", max_retries=0)


def told(response: Any) -> dict[str, Any]:
    return {
        "status": response.status,
        "text": response.output_text,
        "items": [item.type for item in response.output],
        "tokens": [response.usage.input_tokens, response.usage.output_tokens],
    }


async def whole(server: Server) -> Any:
    client = client_of(server)
    return told(await client.responses.create(model=server.model, input=server.question("text")))


async def stream(server: Server) -> Any:
    """With the SDK's accumulating stream, which checks every event against those before."""
    async with client_of(server).responses.stream(
        model=server.model, input=server.question("text")
    ) as events:
        types, deltas, numbers = [], "", []
        async for event in events:
            types.append(event.type)
            numbers.append(event.sequence_number)
            deltas += event.delta if event.type == "response.output_text.delta" else ""
        final = await events.get_final_response()
    once = list(dict.fromkeys(types))
    return told(final) | {"types": once, "deltas": deltas, "grow": numbers == sorted(set(numbers))}


async def reasoning(server: Server) -> Any:
    async with client_of(server).responses.stream(
        model=server.model, input=server.question("reasoning"), reasoning={"effort": "low"}
    ) as events:
        said = ""
        async for event in events:
            said += event.delta if event.type == "response.reasoning_summary_text.delta" else ""
        final = await events.get_final_response()
    return told(final) | {"said": said, "summary": final.output[0].summary[0].text}


async def reasoning_given_back(server: Server) -> Any:
    client = client_of(server)
    first = await client.responses.create(
        model=server.model, input=server.question("reasoning"), store=False
    )
    items: Any = [{"role": "user", "content": server.question("reasoning")}]
    items += [item.model_dump(exclude_none=True) for item in first.output]
    items.append({"role": "user", "content": "And now?"})
    return told(await client.responses.create(model=server.model, input=items))


async def refusal(server: Server) -> Any:
    async with client_of(server).responses.stream(
        model=server.model, input=server.question("refusal")
    ) as events:
        said = ""
        async for event in events:
            said += event.delta if event.type == "response.refusal.delta" else ""
        final = await events.get_final_response()
    return {"said": said, "refusal": final.output[0].content[0].refusal}


async def tools(server: Server) -> Any:
    """Calls come in a stream, and their outputs go with the id of their response."""
    client = client_of(server)
    async with client.responses.stream(
        model=server.model, input=server.question("tools"), tools=_TOOLS
    ) as events:
        said = ""
        async for event in events:
            said += event.delta if event.type == "response.function_call_arguments.delta" else ""
        first = await events.get_final_response()
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"{call.name} is fine"}
        for call in first.output
    ]
    second = await client.responses.create(
        model=server.model, input=outputs, previous_response_id=first.id, tools=_TOOLS
    )
    calls = [[call.name, call.arguments, call.call_id] for call in first.output]
    return {"calls": calls, "said": said, "answer": told(second)}


async def structured(server: Server) -> Any:
    parsed = await client_of(server).responses.parse(
        model=server.model, input=server.question("person"), text_format=Person
    )
    return parsed.output_parsed.model_dump() if parsed.output_parsed else None


async def incomplete(server: Server) -> Any:
    response = await client_of(server).responses.create(
        model=server.model, input=server.question("cut"), max_output_tokens=16
    )
    return [response.status, response.incomplete_details and response.incomplete_details.reason]


async def logprobs(server: Server) -> Any:
    response = await client_of(server).responses.create(
        model=server.model,
        input=server.question("text"),
        include=["message.output_text.logprobs"],
        top_logprobs=2,
    )
    return [each.logprob for each in response.output[0].content[0].logprobs]


async def conversation(server: Server) -> Any:
    client = client_of(server)
    first = await client.responses.create(
        model=server.model, input=server.question("turns"), instructions="Be brief."
    )
    second = await client.responses.create(
        model=server.model, input="And then?", previous_response_id=first.id
    )
    again = await client.responses.retrieve(second.id)
    return {
        "second": told(second),
        "previous": again.previous_response_id == first.id,
        "kept": told(again) == told(second),
        "instructions": [first.instructions, again.instructions],
    }


async def cut(server: Server) -> Any:
    """A stream breaks off in its middle, and goes on behind the last number."""
    client = client_of(server)
    text, last, name = "", -1, ""
    async for event in await client.responses.create(
        model=server.model, input=server.question("silence-within"), stream=True
    ):
        last = event.sequence_number
        if event.type == "response.created":
            name = event.response.id
        if event.type == "response.output_text.delta":
            text += event.delta
            break
    before = text
    async for event in await client.responses.retrieve(name, stream=True, starting_after=last):
        assert event.sequence_number > last
        last = event.sequence_number
        text += event.delta if event.type == "response.output_text.delta" else ""
    ended = [
        event
        async for event in await client.responses.retrieve(name, stream=True, starting_after=last)
    ]
    return {"before": before, "text": text, "type": event.type, "behind": len(ended)}


async def cut_anywhere(server: Server) -> Any:
    """Wherever a stream is cut, the rest is what was left."""
    client = client_of(server)
    first = await client.responses.create(
        model=server.model, input=server.question("tools"), tools=_TOOLS
    )
    every = [event async for event in await client.responses.retrieve(first.id, stream=True)]
    rests = [
        [
            event.to_dict()
            async for event in await client.responses.retrieve(
                first.id, stream=True, starting_after=known.sequence_number
            )
        ]
        for known in every
    ]
    left = [[event.to_dict() for event in every[place + 1 :]] for place in range(len(every))]
    return [len(every), rests == left]


async def background(server: Server) -> Any:
    client = client_of(server)
    begun = await client.responses.create(
        model=server.model, input=server.question("silence-first"), background=True
    )
    states = [begun.status]
    while (now := await client.responses.retrieve(begun.id)).status in ("queued", "in_progress"):
        states.append(now.status)
        await asyncio.sleep(0.05)
    return {"running": sorted(set(states)), "ended": told(now), "background": now.background}


async def cancelled(server: Server) -> Any:
    client = client_of(server)
    begun = await client.responses.create(
        model=server.model, input=server.question("long-silence-within"), background=True
    )
    stopped = await client.responses.cancel(begun.id)
    later = await client.responses.retrieve(begun.id)
    return [stopped.status, later.status]


async def aborted(server: Server) -> Any:
    """A client leaves that has stored nothing: nobody can come back."""
    client = client_of(server)
    events = await client.responses.create(
        model=server.model, input=server.question("long-silence-within"), stream=True, store=False
    )
    name = ""
    async for event in events:
        if event.type == "response.created":
            name = event.response.id
        if event.type == "response.output_text.delta":
            break
    await events.close()
    try:
        await client.responses.retrieve(name)
    except NotFoundError as error:
        return error.code
    return "it is still there"


async def deleted(server: Server) -> Any:
    client = client_of(server)
    made = await client.responses.create(model=server.model, input=server.question("text"))
    await client.responses.delete(made.id)
    try:
        await client.responses.retrieve(made.id)
    except NotFoundError as error:
        return error.code
    return "it is still there"


async def input_items(server: Server) -> Any:
    client = client_of(server)
    parts: Any = [
        {"type": "input_text", "text": server.question("text")},
        {"type": "input_image", "image_url": _PIXEL, "detail": "low"},
    ]
    made = await client.responses.create(
        model=server.model, input=[{"role": "user", "content": parts}]
    )
    items = [item.to_dict() async for item in client.responses.input_items.list(made.id)]
    return [[part["type"] for part in item["content"]] for item in items]


async def too_long(server: Server) -> Any:
    return told(
        await client_of(server).responses.create(
            model=server.model, input=server.question("too-long")
        )
    )


async def too_long_streamed(server: Server) -> Any:
    return [
        event.type
        async for event in await client_of(server).responses.create(
            model=server.model, input=server.question("too-long"), stream=True
        )
    ]


async def hosted_tool(server: Server) -> Any:
    hosted: Any = [{"type": "web_search"}]
    await client_of(server).responses.create(model=server.model, input="hello", tools=hosted)


async def unknown_previous(server: Server) -> Any:
    name = "resp_" + "0" * 72
    await client_of(server).responses.create(
        model=server.model, input="hello", previous_response_id=name
    )


async def repeated(server: Server) -> Any:
    """The same request with the same key is one response."""
    client = client_of(server)
    asking: Any = {
        "model": server.model,
        "input": server.question("text"),
        "extra_headers": {"Idempotency-Key": "once"},
    }
    first, second = [await client.responses.create(**asking) for _ in range(2)]
    return first.id == second.id


async def websocket(server: Server) -> Any:
    """Two turns over one WebSocket. What isn't stored is known to it alone."""
    client, saw = client_of(server), []
    asking: Any = {"model": server.model, "store": False}
    async with client.responses.connect() as connection:
        name = None
        for question in (server.question("turns"), "And then?"):
            await connection.response.create(input=question, previous_response_id=name, **asking)
            async for event in connection:
                if event.type == "response.completed":
                    saw.append(told(event.response))
                    name = event.response.id
                    break
        await connection.response.create(input=server.question("too-long"), **asking)
        refused = await connection.recv()
    return {"saw": saw, "refused": [refused.type, refused.code, refused.status]}


if __name__ == "__main__":
    run(globals())
