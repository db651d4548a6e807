"""Strands with Anthropic's model."""

from __future__ import annotations

from typing import Any

from scenarios import Server, run
from strands import Agent, tool
from strands.models.anthropic import AnthropicModel


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def agent(server: Server, **options: Any) -> Agent:
    url = server.url.removesuffix("/v1")
    client = {"api_key": "sk-ant-anything", "base_url": url, "max_retries": 0}
    model = AnthropicModel(client_args=client, model_id=server.model, max_tokens=1000)
    return Agent(model=model, callback_handler=None, **options)


async def tools(server: Server) -> Any:
    answer = await agent(server, tools=[get_weather]).invoke_async(server.question("weather"))
    return str(answer).strip()


async def shortens(server: Server) -> Any:
    """The agent drops its oldest turns, and asks again."""
    question = server.question("too-long-above-four")
    said = [("user", question), ("assistant", "Fine.")] * 3
    history = [{"role": role, "content": [{"text": text}]} for role, text in said]
    answer = await agent(server, messages=history).invoke_async(question)
    return str(answer).strip()


if __name__ == "__main__":
    run(globals())
