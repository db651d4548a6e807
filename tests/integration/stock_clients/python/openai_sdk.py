"""OpenAI's own SDK."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI
from pydantic import BaseModel
from side_by_side import Server, run
from tools import PIXEL, TOOLS, result_of

PARAMETERS: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "logit_bias": {"50256": -100},
    "max_completion_tokens": 77,
    "reasoning_effort": "low",
    "seed": 7,
    "stop": ["END", "\n\n\n"],
    "temperature": 0.2,
    "top_p": 0.9,
    "verbosity": "low",
    "extra_body": {
        "top_k": 40,
        "min_p": 0.05,
        "ignore_eos": True,
        "chat_template_kwargs": {"enable_thinking": False},
        "repetition_penalty": 1.1,
    },
}


class Person(BaseModel):
    name: str
    age: int


def client(server: Server) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.url, api_key=server.key)


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


async def asked(server: Server, script: str, *further: Any, **options: Any) -> dict[str, Any]:
    messages = [user(server.question(script)), *further]
    return await answered(server, messages, **options)


async def answered(
    server: Server, messages: list[Any], *, stream: bool = True, **options: Any
) -> dict[str, Any]:
    completions = client(server).chat.completions
    if not stream:
        answer = await completions.create(model=server.model, messages=messages, **options)
        return whole_answer(answer, server)
    options = {"stream_options": {"include_usage": True}} | options
    stream = await completions.create(model=server.model, messages=messages, stream=True, **options)
    return await folded(stream, server)


def whole_answer(answer: Any, server: Server) -> dict[str, Any]:
    told = answer.model_dump()
    keys = ("content", "reasoning_content", "refusal", "tool_calls")
    choices = [
        {key: choice["message"].get(key) for key in keys}
        | {"finish_reason": choice["finish_reason"], "logprobs": choice.get("logprobs")}
        for choice in told["choices"]
    ]
    return {
        "is_asked_model": told["model"] == server.model,
        "choices": choices,
        "usage": told["usage"],
    }


async def folded(stream: Any, server: Server) -> dict[str, Any]:
    choices: dict[int, dict[str, Any]] = {}
    usage, is_asked_model = None, False
    async for chunk in stream:
        told = chunk.model_dump()
        is_asked_model, usage = told["model"] == server.model, told.get("usage") or usage
        for part in told["choices"]:
            choice = choices.setdefault(
                part["index"], {"finish_reason": None, "calls": {}, "logprobs": []}
            )
            choice["finish_reason"] = part["finish_reason"] or choice["finish_reason"]
            choice["logprobs"] += [
                each["token"] for each in (part.get("logprobs") or {}).get("content") or ()
            ]
            for key in ("content", "reasoning_content", "refusal"):
                choice[key] = choice.get(key, "") + (part["delta"].get(key) or "")
            for call in part["delta"].get("tool_calls") or ():
                _take(call, choice["calls"])
    in_order = [choices[index] for index in sorted(choices)]
    return {"is_asked_model": is_asked_model, "choices": in_order, "usage": usage}


def _take(call: dict[str, Any], calls: dict[int, dict[str, Any]]) -> None:
    known = calls.setdefault(call["index"], {"id": None, "name": None, "arguments": ""})
    known["id"] = call["id"] or known["id"]
    known["name"] = call["function"]["name"] or known["name"]
    known["arguments"] += call["function"]["arguments"] or ""


async def stream(server: Server) -> Any:
    return await asked(server, "text")


async def stream_without_usage(server: Server) -> Any:
    return await asked(server, "text", stream_options={"include_usage": False})


async def whole(server: Server) -> Any:
    return await asked(server, "text", stream=False)


async def reasoning(server: Server) -> Any:
    return await asked(server, "reasoning")


async def reasoning_whole(server: Server) -> Any:
    return await asked(server, "reasoning", stream=False)


async def refusal(server: Server) -> Any:
    return await asked(server, "refusal")


async def refusal_whole(server: Server) -> Any:
    return await asked(server, "refusal", stream=False)


async def filtered(server: Server) -> Any:
    return [await asked(server, "filtered", stream=each) for each in (True, False)]


async def cut(server: Server) -> Any:
    return [await asked(server, "cut", stream=each) for each in (True, False)]


async def json_mode(server: Server) -> Any:
    return [
        await asked(server, "person", stream=each, response_format={"type": "json_object"})
        for each in (True, False)
    ]


async def parse(server: Server) -> Any:
    answer = await client(server).chat.completions.parse(
        model=server.model, messages=[user(server.question("person"))], response_format=Person
    )
    return answer.choices[0].message.parsed.model_dump()


async def tools(server: Server) -> Any:
    first = await asked(server, "tools", tools=TOOLS, tool_choice="auto")
    called = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in first["choices"][0]["calls"].values()
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": result_of(call["function"]["name"])}
        for call in called
    ]
    turn = {"role": "assistant", "tool_calls": called}
    return [first, await asked(server, "tools", turn, *results, tools=TOOLS)]


async def tools_whole(server: Server) -> Any:
    completions, messages = client(server).chat.completions, [user(server.question("tools"))]
    first = await completions.create(model=server.model, messages=messages, tools=TOOLS)
    called = first.choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": result_of(call.function.name)}
        for call in called.tool_calls
    ]
    second = await completions.create(
        model=server.model, messages=[*messages, called, *results], tools=TOOLS
    )
    return [whole_answer(first, server), whole_answer(second, server)]


async def two_turns(server: Server) -> Any:
    completions, messages = client(server).chat.completions, [user(server.question("turns"))]
    first = await completions.create(model=server.model, messages=messages)
    messages += [first.choices[0].message.model_dump(), user("And then?")]
    second = await completions.create(model=server.model, messages=messages)
    return [whole_answer(first, server), whole_answer(second, server)]


async def two_choices(server: Server) -> Any:
    return [await asked(server, "text", n=2, stream=each) for each in (True, False)]


async def logprobs(server: Server) -> Any:
    return [
        await asked(server, "text", logprobs=True, top_logprobs=2, stream=each)
        for each in (True, False)
    ]


async def parameters(server: Server) -> Any:
    return await asked(server, "text", **PARAMETERS)


async def continuous_usage(server: Server) -> Any:
    return await asked(
        server, "text", stream_options={"include_usage": True, "continuous_usage_stats": True}
    )


async def image(server: Server) -> Any:
    parts = [
        {"type": "text", "text": server.question("text")},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]
    return await answered(server, [user(parts)])


async def names(server: Server) -> Any:
    system = {"role": "system", "content": "Be brief.", "name": "house"}
    return await answered(server, [system, user(server.question("text"), name="ada")])


async def thoughts_given_back(server: Server) -> Any:
    turn = {
        "role": "assistant",
        "content": "A train.",
        "reasoning_content": "Trains …",
        "annotations": [],
    }
    return await asked(server, "turns", turn, user("And then?"))


async def megabyte(server: Server) -> Any:
    return await asked(server, "text", user("rails " * 175_000))


async def silence_first(server: Server) -> Any:
    return await asked(server, "silence-first")


async def silence_within(server: Server) -> Any:
    return await asked(server, "silence-within")


async def silence_whole(server: Server) -> Any:
    return await asked(server, "silence-first", stream=False)


async def thinking(server: Server) -> Any:
    return await asked(server, "thinking")


async def long_silence_first(server: Server) -> Any:
    return await asked(server, "long-silence-first")


async def long_silence_within(server: Server) -> Any:
    return await asked(server, "long-silence-within")


async def long_silence_whole(server: Server) -> Any:
    return await asked(server, "long-silence-first", stream=False)


async def busy_once(server: Server) -> Any:
    return await asked(server, "busy-once")


async def busy(server: Server) -> Any:
    return await asked(server, "busy")


async def overloaded(server: Server) -> Any:
    return await asked(server, "overloaded", stream=False)


async def no_quota(server: Server) -> Any:
    return await asked(server, "no-quota")


async def too_long(server: Server) -> Any:
    return await asked(server, "too-long")


async def too_long_whole(server: Server) -> Any:
    return await asked(server, "too-long", stream=False)


async def policy(server: Server) -> Any:
    return await asked(server, "policy")


async def wrong_value(server: Server) -> Any:
    return await asked(server, "wrong")


async def models(server: Server) -> Any:
    return server.model in [model.id async for model in client(server).models.list()]


if __name__ == "__main__":
    run(globals())
