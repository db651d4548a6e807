"""What Anthropic's client for Python sees, as it comes: each scenario gets the texts to send."""

from __future__ import annotations

import json
import sys
from typing import Any

import anthropic

ASKED = json.loads(sys.argv[1])
TEXT, MORE = ASKED["text"], ASKED["more"]
client = anthropic.Anthropic(base_url=ASKED["url"], api_key="sk-ant-anything", max_retries=0)
WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
THINKING: Any = {"type": "enabled", "budget_tokens": 2048}


def said(text: str = TEXT, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": ASKED["model"], "max_tokens": 1000, "messages": messages} | more


def told(message: Any) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(message.to_json())
    return seen


def streamed(**asked: Any) -> dict[str, Any]:
    with client.messages.stream(**said(**asked)) as stream:
        texts = list(stream.text_stream)
        return told(stream.get_final_message()) | {"texts": texts}


def whole() -> Any:
    return told(client.messages.create(**said()))


def stream() -> Any:
    return streamed()


def events() -> Any:
    return [event.type for event in client.messages.create(**said(), stream=True)]


def thinking() -> Any:
    return [streamed(thinking=THINKING), told(client.messages.create(**said(thinking=THINKING)))]


def two_turns() -> Any:
    first = client.messages.create(**said(thinking=THINKING, tools=[WEATHER]))
    (call,) = (block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": MORE}
    messages = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    second = streamed(messages=messages, tools=[WEATHER])
    return {"called": {"name": call.name, "input": call.input}, "stop": first.stop_reason} | second


def tools_streamed() -> Any:
    return streamed(tools=[WEATHER])


def parameters() -> Any:
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "text", "text": TEXT}, {"type": "image", "source": image}]
    asked = said(
        messages=[{"role": "user", "content": content}],
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        stop_sequences=["END"],
        extra_body={"temperature": 0.5, "top_k": 7},  # gone from its types, not from models
        tools=[WEATHER],
        tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
        metadata={"user_id": "ada"},
    )
    return told(client.messages.create(**asked))


def abort() -> Any:
    with client.messages.stream(**said()) as stream:
        texts = [text for text, _ in zip(stream.text_stream, range(5), strict=False)]
    return {"texts": texts}


def come_back() -> Any:
    key = {"Idempotency-Key": MORE}
    with client.messages.stream(**said(), extra_headers=key) as stream:
        begun = "".join(text for text, _ in zip(stream.text_stream, range(10), strict=False))
        first = stream.current_message_snapshot.id
    return streamed(extra_headers=key) | {"begun": begun, "first": first}


def unserved() -> Any:
    return told(client.messages.create(**said(), extra_body={"container": "c"}))


def tool_runner() -> Any:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"{MORE} in {city}"

    return told(client.beta.messages.tool_runner(**said(tools=[get_weather])).until_done())


def models() -> Any:
    named = told(client.models.retrieve(ASKED["model"]))
    return {"listed": [model.id for model in client.models.list()], **named}


def count_tokens() -> Any:
    asked = said()
    del asked["max_tokens"]
    return told(client.messages.count_tokens(**asked))


def raised(error: anthropic.APIStatusError) -> dict[str, Any]:
    return {
        "raised": type(error).__name__,
        "status": error.status_code,
        "body": error.body,
        "request_id": error.request_id,
        "retry_after": error.response.headers.get("retry-after"),
    }


try:
    seen = globals()[ASKED["scenario"]]()
except anthropic.APIStatusError as error:
    seen = raised(error)
print(json.dumps(seen))
