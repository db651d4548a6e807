"""Strands and LangChain with Anthropic's models: how they take a conversation that is too long."""

from __future__ import annotations

from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ContextOverflowError
from scenarios import Server, run
from strands import Agent, tool
from strands.models.anthropic import AnthropicModel

# Their clients add the version's path themselves.
_KEY = "sk-ant-anything"


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def agent(server: Server, **options: Any) -> Agent:
    client = {"api_key": _KEY, "base_url": server.url.removesuffix("/v1"), "max_retries": 0}
    model = AnthropicModel(client_args=client, model_id=server.model, max_tokens=1000)
    return Agent(model=model, callback_handler=None, **options)


def chain(server: Server) -> ChatAnthropic:
    url = server.url.removesuffix("/v1")
    return ChatAnthropic(
        model=server.model, api_key=_KEY, base_url=url, max_tokens=1000, max_retries=0
    )


def history(text: str) -> list[Any]:
    """Six turns, each of which asks the same."""
    said = [("user", text), ("assistant", "Fine.")] * 3
    return [{"role": role, "content": [{"text": text}]} for role, text in said]


async def strands_tools(server: Server) -> Any:
    answer = await agent(server, tools=[get_weather]).invoke_async(server.question("weather"))
    return str(answer).strip()


async def strands_shortens(server: Server) -> Any:
    """The agent drops its oldest turns, and asks again."""
    question = server.question("too-long-above-four")
    answer = await agent(server, messages=history(question)).invoke_async(question)
    return str(answer).strip()


async def langchain_streams(server: Server) -> Any:
    return "".join(
        [str(part.text) async for part in chain(server).astream(server.question("text"))]
    )


async def langchain_knows(server: Server) -> Any:
    try:
        await chain(server).ainvoke(server.question("too-long"))
    except ContextOverflowError as error:
        return type(error).__mro__[0] is not ContextOverflowError
    return False


if __name__ == "__main__":
    run(globals())
