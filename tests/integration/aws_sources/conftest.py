"""The model server, and sources that call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSource
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.session.conversation import Turn
from tests.integration.aws_models.model_server import ModelServer, model_server
from tests.integration.aws_models.services import SERVICES, Service
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

TEXTS = ["Größe ", "流れ", " 🙂 ", '"quoted" ', "back\\slash\n", "end."]
WHOLE = "".join(TEXTS)
FINISH = ModelFinish("stop", Usage(prompt_tokens=11, completion_tokens=42))
# More than the pools have by default: the SDK's 10, aiohttp's 100.
STREAMS = 120

Opened = Callable[[Service], TokenSource]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials but those that a test sets."""
    for name in (
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    """The model server, in this loop: what it does is the test's."""
    async with model_server() as serving:
        point_at(serving, monkeypatch)
        yield serving


def point_at(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDK call this one."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens sources, and closes them."""
    sources: list[TokenSource] = []

    def opened(service: Service) -> TokenSource:
        sources.append(service.source(STREAMS))
        return sources[-1]

    yield opened
    for source in sources:
        await source.close()


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> Service:
    """Each of them."""
    return SERVICES[request.param]


@pytest.fixture(params=["bedrock", "sagemaker-vllm"])
def either(request: pytest.FixtureRequest) -> Service:
    """One of each kind, where the container's format makes no difference."""
    return SERVICES[request.param]


def asks(*texts: str) -> ModelRequest:
    """A conversation: user, assistant, user …"""
    roles = ("user", "assistant")
    return ModelRequest(
        "demo", tuple(Turn(roles[place % 2], text) for place, text in enumerate(texts)), 1
    )


async def failure(source: TokenSource) -> EvenflowError:
    """The error that a question ends with."""
    with pytest.raises(EvenflowError) as failed:
        await source.generate(asks("a question"), RecordingSink())
    return failed.value


async def nothing_is_left(source: TokenSource, model: ModelServer) -> None:
    """No call is being answered, and without its idle connections the source holds none."""
    await model.until_open(0)
    await source.close()
    await nobody_is_connected(model)


async def nobody_is_connected(model: ModelServer) -> None:
    """Wait until the last connection has ended."""
    for _ in range(2_000):
        if not model.connections:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{model.connections} connections are still open")
