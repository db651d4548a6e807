"""Workers as a token source: everything that the port promises, across the wire."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import grpc
import pytest

from evenflow.fargate_handler.inference import worker_source as grpc_worker
from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.inference.llm_v1.inference_pb2_grpc import InferenceStub
from evenflow.fargate_handler.inference.worker_source import GrpcWorkers
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelOptions, ModelRequest
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
)
from evenflow.stream_core.session.conversation import Turn
from tests.integration.grpc_workers.conftest import LocalWorker, Opened, Serving
from tests.integration.grpc_workers.scripted_source import (
    FINISH,
    ScriptedSource,
    fails,
    goes_on,
    is_silent,
    says,
)
from tests.integration.server_process import free_port
from tests.unit.fargate_handler.token_sources.recording_sink import Full, RecordingSink

_TEXTS = ["Größe ", "流れ", " 🙂 ", '"quoted" ', "back\\slash\n", "", "\x00", "end."]
_CANCEL_MS = 200.0
_QUESTION = ModelRequest("demo", (Turn("user", "a question"),), 1)


async def _failure(source: GrpcWorkers, sink: RecordingSink | None = None) -> EvenflowError:
    with pytest.raises(EvenflowError) as failed:
        await source.generate(_QUESTION, sink or RecordingSink())
    return failed.value


async def _until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - the other side is what is tested
            await asyncio.sleep(0.01)


async def _what_waits(worker: LocalWorker) -> wire.DescribeResponse:
    async with grpc.aio.insecure_channel(worker.address) as channel:
        said: wire.DescribeResponse = await InferenceStub(channel).Describe(wire.DescribeRequest())
        return said


async def test_tokens_arrive_as_they_were_given(serving: Serving, opened: Opened) -> None:
    model = ScriptedSource(says(*_TEXTS))
    source, sink = opened([(await serving(model)).address]), RecordingSink()
    assert await source.generate(_QUESTION, sink) == FINISH
    assert sink.tokens == _TEXTS


@pytest.mark.parametrize("finish", [FINISH, ModelFinish("length", None), ModelFinish("stop", None)])
async def test_the_end_arrives_as_it_was(
    serving: Serving, opened: Opened, finish: ModelFinish
) -> None:
    source = opened([(await serving(ScriptedSource(says("x", finish=finish)))).address])
    assert await source.generate(_QUESTION, RecordingSink()) == finish


async def test_the_model_is_asked_what_the_source_was_asked(
    serving: Serving, opened: Opened
) -> None:
    model = ScriptedSource(says("x"), continues=True)
    source = opened([(await serving(model)).address])
    turns = (Turn("user", "first"), Turn("assistant", "Größe\n"), Turn("user", "then 🙂"))
    options = ModelOptions(
        max_completion_tokens=7, temperature=0.0, top_p=0.9, stop=("a", "流"), seed=-1
    )
    asked = [
        ModelRequest("agent-7", turns, 3, "the beginning ", "r1:2:3", options),
        ModelRequest("agent-7", turns, 1, "", "r1:2:1", ModelOptions(max_tokens=9)),
        ModelRequest("agent-7", turns, 1),
    ]
    for request in asked:
        await source.generate(request, RecordingSink())
    assert model.requests == asked


async def test_it_continues_when_all_its_workers_do(serving: Serving, opened: Opened) -> None:
    able, unable = (ScriptedSource(says("x"), continues=continues) for continues in (True, False))
    source = opened([(await serving(able)).address])
    assert not source.continues, "nobody has been asked yet"
    await _until(lambda: source.continues)
    mixed = opened([(await serving(able)).address, (await serving(unable)).address])
    await asyncio.sleep(0.2)
    assert not mixed.continues


async def test_a_worker_that_cannot_continue_does_not_begin_again_behind_the_beginning(
    serving: Serving, opened: Opened
) -> None:
    model, sink = ScriptedSource(says("from the start")), RecordingSink()
    source = opened([(await serving(model)).address])
    with pytest.raises(UpstreamFailed):
        await source.generate(ModelRequest("demo", (Turn("user", "x"),), 1, "from "), sink)
    assert (sink.tokens, model.requests) == ([], [])


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [
        (UpstreamFailed("it broke", code="upstream_failed"), UpstreamFailed, "upstream_failed"),
        (
            UpstreamFailed("later", code="upstream_throttled", retry_after_ms=5000),
            UpstreamFailed,
            "upstream_throttled",
        ),
        (
            UpstreamRejected("not you", code="model_not_set_up"),
            UpstreamRejected,
            "model_not_set_up",
        ),
        (ModelRefused("not that", code="model_refused"), ModelRefused, "model_refused"),
    ],
    ids=str,
)
async def test_what_the_model_raises_arrives(
    serving: Serving, opened: Opened, raised: EvenflowError, kind: type[EvenflowError], code: str
) -> None:
    source, sink = (
        opened([(await serving(ScriptedSource(fails(raised, "a", "b")))).address]),
        RecordingSink(),
    )
    error = await _failure(source, sink)
    assert (type(error), error.code, error.retry_after_ms) == (kind, code, raised.retry_after_ms)
    assert sink.tokens == ["a", "b"], "what had been given arrives before the error"


async def test_a_defect_of_the_model_is_in_the_workers_log_alone(
    serving: Serving, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    error = await _failure(
        opened([(await serving(ScriptedSource(fails(KeyError("a secret"))))).address])
    )
    assert error.code == "internal_error"
    assert "a secret" not in error.message
    assert "a secret" in caplog.text


@pytest.mark.parametrize("how", ["while it speaks", "in silence", "while it is paused"])
async def test_cancelling_stops_the_model(serving: Serving, opened: Opened, how: str) -> None:
    model = ScriptedSource(is_silent if how == "in silence" else goes_on)
    source = opened([(await serving(model)).address])
    taken = []
    for _ in range(3):
        sink = RecordingSink()
        sink.paused = how == "while it is paused"
        call = asyncio.ensure_future(source.generate(_QUESTION, sink))
        await model.until_running(1)
        await asyncio.sleep(0.05)
        began = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await model.until_running(0)
        taken.append((model.stopped_at[-1] - began) * 1000)
    assert min(taken) < _CANCEL_MS, taken


async def test_a_sink_that_wants_no_more_stops_the_model(serving: Serving, opened: Opened) -> None:
    model = ScriptedSource(goes_on)
    source = opened([(await serving(model)).address])
    with pytest.raises(Full):
        await source.generate(_QUESTION, RecordingSink(refuses_after=5))
    await model.until_running(0)


_SHORT = {
    "model_first_sign_seconds": 0.1,
    "model_silence_seconds": 0.1,
    "model_deadline_seconds": 0.1,
    "pause_seconds": 0.1,
}


async def test_a_deadline_ends_the_call_on_both_sides(
    serving: Serving, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_worker, "_LONGEST_PAUSE_SECONDS", 0.1)
    model = ScriptedSource(is_silent)
    source = opened([(await serving(model)).address], **_SHORT)
    began = time.monotonic()
    assert type(await _failure(source)) is UpstreamTimeout
    assert 0.15 < time.monotonic() - began < 20  # it would be silent for ever
    await model.until_running(0)


async def test_an_answer_that_is_held_for_longer_than_one_pause_is_not_ended(
    serving: Serving, opened: Opened
) -> None:
    model, sink = ScriptedSource(says("one ", "two")), RecordingSink()
    source = opened([(await serving(model)).address], **_SHORT)
    sink.paused = True
    call = asyncio.ensure_future(source.generate(_QUESTION, sink))
    await asyncio.sleep(3 * sum(_SHORT.values()))
    sink.paused = False
    assert await call == FINISH
    assert sink.text == "one two"


async def test_a_sink_that_is_held_holds_the_model_at_a_bounded_number_of_tokens(
    serving: Serving, opened: Opened
) -> None:
    model, sink = ScriptedSource(goes_on), RecordingSink()
    worker = await serving(model, worker_buffer_tokens=50, worker_window_bytes=1024)
    source = opened([worker.address], worker_window_bytes=1024)
    sink.paused = True
    call = asyncio.ensure_future(source.generate(_QUESTION, sink))
    await model.until_running(1)
    await _until_still(worker)
    still = await _what_waits(worker)
    assert still.tokens_waiting == 50
    # 'word ' is 7 bytes in a message: the windows of both sides, and what one read and one write
    # had in hand.
    assert still.tokens_taken - len(sink.tokens) <= 50 + 2 * 50 + 2 * 1024 / 7
    sink.paused = False
    await _until(lambda: len(sink.tokens) > 5 * still.tokens_taken)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await model.until_running(0)


async def test_held_streams_leave_the_connection_to_the_others(
    serving: Serving, opened: Opened
) -> None:
    """A window of HTTP/2 is the connection's, too: two hundred that stand still must not fill
    it.
    """
    model = ScriptedSource(goes_on)
    worker = await serving(model)
    source = opened([worker.address])
    pausing = RecordingSink()
    pausing.paused = True
    calls = [asyncio.ensure_future(source.generate(_QUESTION, pausing)) for _ in range(200)]
    await model.until_running(200)
    await _until_still(worker)
    texts = [f"{number} " for number in range(10_000)]
    model.behaviour = says(*texts)
    sink = RecordingSink()
    async with asyncio.timeout(30):
        assert await source.generate(_QUESTION, sink) == FINISH
    assert sink.tokens == texts
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await model.until_running(0)


async def _until_still(worker: LocalWorker) -> None:
    before, now = -1, 0
    async with asyncio.timeout(30):
        while before != now:
            before = now
            await asyncio.sleep(0.2)
            now = (await _what_waits(worker)).tokens_taken


async def test_a_model_that_gives_all_at_once_is_cut_at_the_longest_answer(
    serving: Serving, opened: Opened
) -> None:
    worker = await serving(ScriptedSource(says(*["x" * 100] * 1000)), response_bytes=10_000)
    sink = RecordingSink()
    assert (await opened([worker.address]).generate(_QUESTION, sink)).finish_reason == "length"
    assert sink.text == "x" * 10_000


async def test_one_long_token_arrives(serving: Serving, opened: Opened) -> None:
    text = "流" * 1_000_000
    sink = RecordingSink()
    await opened([(await serving(ScriptedSource(says(text)))).address]).generate(_QUESTION, sink)
    assert sink.text == text


async def test_a_worker_that_is_not_there_is_replaced_before_anyone_notices(
    serving: Serving, opened: Opened
) -> None:
    model = ScriptedSource(says("x"))
    there, nowhere = (await serving(model)).address, f"127.0.0.1:{free_port()}"
    source = opened([nowhere, there])
    for _ in range(10):
        assert await source.generate(_QUESTION, RecordingSink()) == FINISH
    assert len(model.requests) == 10


async def test_a_full_worker_is_replaced_by_another(serving: Serving, opened: Opened) -> None:
    busy, free = ScriptedSource(is_silent), ScriptedSource(says("x"))
    full = await serving(busy, generations_per_node=1)
    source = opened([full.address])
    blocking = asyncio.ensure_future(source.generate(_QUESTION, RecordingSink()))
    await busy.until_running(1)
    error = await _failure(source)
    assert (type(error), error.code) == (UpstreamFailed, "upstream_failed")
    both = opened([full.address, (await serving(free)).address])
    for _ in range(10):
        assert await both.generate(_QUESTION, RecordingSink()) == FINISH
    assert busy.running == 1
    blocking.cancel()
    await asyncio.gather(blocking, return_exceptions=True)


async def test_without_any_worker_it_fails_in_time(opened: Opened) -> None:
    began = time.monotonic()
    error = await _failure(opened([f"127.0.0.1:{free_port()}", "no.such.host.invalid:1"]))
    assert (type(error), error.code) == (UpstreamFailed, "upstream_failed")
    assert "127.0.0.1" not in error.message
    assert time.monotonic() - began < 9  # before its first token is due


async def test_a_worker_that_comes_back_is_asked_again(serving: Serving, opened: Opened) -> None:
    model = ScriptedSource(says("x"))
    address = f"127.0.0.1:{free_port()}"
    source = opened([address])
    await _failure(source)
    await serving(model, address=address)
    async with asyncio.timeout(30):
        while not model.requests:
            try:
                assert await source.generate(_QUESTION, RecordingSink()) == FINISH
            except UpstreamFailed:
                await asyncio.sleep(0.1)


async def test_answers_spread_over_the_workers(serving: Serving, opened: Opened) -> None:
    models = [ScriptedSource(is_silent) for _ in range(3)]
    source = opened([(await serving(model)).address for model in models])
    calls = [asyncio.ensure_future(source.generate(_QUESTION, RecordingSink())) for _ in range(30)]
    for model in models:
        await model.until_running(10)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_conversation_as_long_as_may_be_arrives(serving: Serving, opened: Opened) -> None:
    model = ScriptedSource(says("x"), continues=True)
    source = opened([(await serving(model)).address])
    turns = (Turn("user", "流" * 11_000), Turn("user", "x" * 65_536))
    await source.generate(ModelRequest("demo", turns, 1, "y" * 1_048_576), RecordingSink())
    assert model.requests[0].turns == turns


async def test_a_name_stands_for_several_workers_and_later_for_others(
    serving: Serving, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [ScriptedSource(is_silent), ScriptedSource(is_silent)]
    port = free_port()
    for host, model in zip(("127.0.0.1", "127.0.0.2"), models, strict=True):
        await serving(model, address=f"{host}:{port}")
    hosts = ["127.0.0.1", "127.0.0.2"]

    async def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        assert host == "workers.internal"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

    monkeypatch.setattr(grpc_worker, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    source = opened([f"workers.internal:{port}"])
    calls = [asyncio.ensure_future(source.generate(_QUESTION, RecordingSink())) for _ in range(4)]
    for model in models:
        await model.until_running(2)
    hosts.remove("127.0.0.1")
    await _until(lambda: len(source._pool.workers) == 1)
    calls += [asyncio.ensure_future(source.generate(_QUESTION, RecordingSink())) for _ in range(4)]
    await models[1].until_running(6)
    assert models[0].running == 2, "what it had goes on"
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    for model in models:
        await model.until_running(0)
