"""Everything that goes wrong, as the contract's errors; nothing hangs and nothing is left open."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.base.errors import (
    ModelRefused,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)
from tests.integration.aws_models.events import bedrock_end, json_event, text_delta
from tests.integration.aws_models.model_server import ModelServer
from tests.integration.aws_models.reply import Reply, refuses, sends
from tests.integration.aws_models.services import BEDROCK, SAGEMAKER_VLLM, Service
from tests.integration.aws_sources.conftest import (
    TEXTS,
    Opened,
    asks,
    failure,
    nothing_is_left,
    point_at,
)
from tests.integration.chat_client import demo
from tests.integration.server_process import free_port
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink


async def test_an_exception_in_the_stream(
    service: Service, model: ModelServer, opened: Opened
) -> None:
    source = opened(service)
    met = {}
    for kind, (event, _) in service.in_stream.items():
        model.will(sends(*service.begin(TEXTS[:3]), event, *service.end, headers=service.headers))
        met[kind] = (await failure(source)).code
    assert met == {kind: code for kind, (_, code) in service.in_stream.items()}
    await nothing_is_left(source, model)


def _garbage(service: Service) -> dict[str, Reply]:
    """A stream that goes wrong after its first texts, in every way that its bytes can."""
    begin = service.begin(TEXTS)
    next_event = service.begin(["never"])[-1]
    bad_message = next_event[:-1] + bytes([next_event[-1] ^ 1])
    bad_prelude = next_event[:9] + bytes([next_event[9] ^ 1]) + next_event[10:]
    bad_payload = next_event[:-6] + b"~~" + next_event[-4:]
    streams: dict[str, list[bytes]] = {
        "a wrong message checksum": [*begin, bad_message, *service.end],
        "a wrong prelude checksum": [*begin, bad_prelude, *service.end],
        "a changed payload": [*begin, bad_payload, *service.end],
        "bytes between": [*begin, b"\x00", *service.end],
        "an event cut off": [*begin, next_event[:-5]],
        "a prelude cut off": [*begin, next_event[:7]],
        "no end": begin,
        "nothing": [],
        "no event stream": [b"<html>Bad Gateway</html>"],
    }
    replies = {what: sends(*pieces, headers=service.headers) for what, pieces in streams.items()}
    replies["a reset"] = sends(*begin, gap=0.01, then="break", headers=service.headers)
    return replies


async def test_garbage_is_an_error_and_never_a_hang_or_a_silent_skip(
    service: Service, model: ModelServer, opened: Opened
) -> None:
    source = opened(service)
    wrong = {}
    for what, reply in _garbage(service).items():
        model.will(reply)
        async with asyncio.timeout(5):
            error = await failure(source)
        if (
            type(error) not in (UpstreamFailed, UpstreamUnreadable)
            or error.code != "upstream_failed"
            or "kept" not in error.message
        ):
            wrong[what] = error
    assert not wrong
    await nothing_is_left(source, model)


@pytest.mark.parametrize(
    "event",
    [
        json_event("contentBlockDelta", {}),
        json_event("contentBlockDelta", [1]),
        json_event("contentBlockDelta", {"delta": {"text": 7}}),
        json_event("contentBlockDelta", {"delta": {"text": "x", "toolUse": {}}}),
        json_event("messageStop", {}),
        json_event("metadata", {"usage": None}),
    ],
    ids=["empty", "a list", "a number", "two members", "no reason", "no usage"],
)
async def test_bedrock_events_of_another_shape(
    event: bytes, model: ModelServer, opened: Opened
) -> None:
    model.will(sends(text_delta("x"), event, bedrock_end()))
    assert type(await failure(opened(BEDROCK))) is UpstreamUnreadable


def _container(status: int, said: str) -> Reply:
    """SageMaker's answer when the container answers with an error."""
    message = (
        f"Received an error ({status}) from primary … in account 111111111111 for more information."
    )
    return refuses(424, "ModelError", message, OriginalStatusCode=status, OriginalMessage=said)


_ANSWERED = {
    "throttled": (
        refuses(429, "ThrottlingException", "Too many"),
        UpstreamAnswered,
        "upstream_throttled",
    ),
    "no such model": (
        refuses(404, "ResourceNotFoundException", "Not found."),
        UpstreamRejected,
        "model_not_set_up",
    ),
    "no permission": (
        refuses(403, "AccessDeniedException", "User: arn:… is"),
        UpstreamRejected,
        "model_not_set_up",
    ),
    "expired": (
        refuses(403, "ExpiredTokenException", "It has expired"),
        UpstreamRejected,
        "model_not_set_up",
    ),
    "too long": (
        refuses(400, "ValidationException", "Input is too long"),
        ModelRefused,
        "context_length_exceeded",
    ),
    "overloaded": (
        refuses(503, "ServiceUnavailableException", "Later"),
        UpstreamAnswered,
        "upstream_overloaded",
    ),
    "an internal error": (
        refuses(500, "InternalServerException", "x"),
        UpstreamFailed,
        "upstream_failed",
    ),
    "a slow model": (refuses(408, "ModelTimeoutException", "x"), UpstreamFailed, "upstream_failed"),
    "a model that loads": (
        refuses(429, "ModelNotReadyException", "x"),
        UpstreamAnswered,
        "upstream_throttled",
    ),
    "a page": (Reply([(0, b"<html>x</html>")], 502), UpstreamFailed, "upstream_failed"),
    "bytes": (Reply([(0, b"\xff\xfe")], 503), UpstreamFailed, "upstream_failed"),
}
_ANSWERED_BY_SAGEMAKER = {
    "no such endpoint": (
        refuses(400, "ValidationError", "Endpoint x of account 111111111111 not found."),
        UpstreamRejected,
        "model_not_set_up",
    ),
    "a container's 400": (
        _container(400, '{"error": {"message": "too long"}}'),
        ModelRefused,
        "context_length_exceeded",
    ),
    "a container's 404": (_container(404, "no such model"), UpstreamRejected, "model_not_set_up"),
    "a container's 429": (_container(429, ""), UpstreamAnswered, "upstream_throttled"),
    "a container's 500": (_container(500, "a traceback"), UpstreamFailed, "upstream_failed"),
}


async def test_a_call_that_is_answered_by_an_error_is_made_once(
    either: Service, model: ModelServer, opened: Opened
) -> None:
    source = opened(either)
    wrong = {}
    answers = _ANSWERED | (_ANSWERED_BY_SAGEMAKER if either is SAGEMAKER_VLLM else {})
    for what, (reply, kind, code) in answers.items():
        model.will(reply)
        error = await failure(source)
        if (type(error), error.code, len(model.requests)) != (
            kind,
            code,
            1,
        ) or "111111111111" in error.message:
            wrong[what] = (error, len(model.requests))
    assert not wrong
    await nothing_is_left(source, model)


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_ACCESS_KEY_ID", "AKIDOFSOMEONEELSE"), ("AWS_SECRET_ACCESS_KEY", "x")]
)
async def test_wrong_credentials(
    either: Service,
    model: ModelServer,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)
    error = await failure(opened(either))
    assert type(error) is UpstreamRejected
    assert "EVENFLOW_" not in error.message
    assert "the credentials and their permission" in caplog.text
    assert not model.requests


async def test_credentials_that_come_later_are_found(
    either: Service, model: ModelServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(either)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert type(await failure(source)) is UpstreamRejected
    point_at(model, monkeypatch)
    sink = RecordingSink()
    await source.generate(asks(demo(tokens=3, gap_ms=0, seed=5)), sink)
    assert sink.tokens == demo_tokens(5, 3)


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_REGION", None), ("AWS_REGION", "not a region"), ("URL", "nonsense")]
)
async def test_a_wrong_configuration_of_the_sdk(
    model: ModelServer,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str | None,
) -> None:
    name = name.replace("URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME")
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    assert type(await failure(opened(BEDROCK))) is UpstreamRejected


async def test_a_server_that_is_not_there(
    either: Service, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at(ModelServer(url=f"http://127.0.0.1:{free_port()}"), monkeypatch)
    error = await failure(opened(either))
    assert (type(error), error.code) == (UpstreamFailed, "upstream_failed")
