"""AutoGen's assistant, which names each speaker."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from side_by_side import Server, run
from tools import get_time, get_weather

ABLE = ModelInfo(
    vision=True, function_calling=True, json_output=True, structured_output=True, family="unknown"
)


def assistant(server: Server, **options: Any) -> AssistantAgent:
    client = OpenAIChatCompletionClient(
        model=server.model,
        base_url=server.url,
        api_key=server.key,
        model_info=ABLE,
        include_name_in_message=True,
    )
    return AssistantAgent("guide", model_client=client, system_message="Be brief.", **options)


def told(result: Any) -> Any:
    return [(message.type, message.source, str(message.to_text())) for message in result.messages]


async def whole(server: Server) -> Any:
    return told(
        await assistant(server).run(task=TextMessage(content=server.question("text"), source="ada"))
    )


async def stream(server: Server) -> Any:
    running = assistant(server, model_client_stream=True).run_stream(task=server.question("text"))
    events = [event async for event in running]
    return told(events[-1])


async def tools(server: Server) -> Any:
    guide = assistant(server, tools=[get_weather, get_time], reflect_on_tool_use=True)
    return told(await guide.run(task=server.question("tools")))


async def two_turns(server: Server) -> Any:
    guide = assistant(server)
    return [
        told(await guide.run(task=server.question("turns"))),
        told(await guide.run(task="And then?")),
    ]


if __name__ == "__main__":
    run(globals())
