from __future__ import annotations

import asyncio

import pytest

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError, Gone, NotFound, Overloaded
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Part, PartKind, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.response_store import TEXT_FORM
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task, two_tasks
from tests.unit.settle import settle

OTHER = Channel("t", "demo", "other")


async def answering(text: str = "") -> tuple[Task, Task, ResponseStream]:
    """Task a answers m1, and has said this much; b knows nothing of it."""
    a, b = await two_tasks()
    stream = (await a.send("m1")).stream
    a.read(stream)
    await settle()
    for token in text:
        a.source.calls[0].push(token)
        await a.clock.pass_time(0.2)
    return a, b, stream


async def outcome(finding: asyncio.Task[ResponseStream]) -> ResponseStream | EvenflowError:
    await settle()
    error = finding.exception()
    assert error is None or isinstance(error, EvenflowError)
    return error or finding.result()


def code(found: ResponseStream | EvenflowError) -> str:
    assert isinstance(found, EvenflowError)
    return found.code


# -- found -----------------------------------------------------------------------------------------


async def test_a_response_of_another_task_is_found_with_what_there_is_of_it_and_goes_on() -> None:
    a, b, stream = await answering("abc")
    copy = await b.find(stream.response_id)
    assert copy is not stream
    assert (copy.via, copy.message_id, copy.log.entries) == ("peer", "m1", ["a", "b", "c"])
    reader = b.read(copy)
    await a.answer("d")
    assert reader.held.text == "abcd"
    assert copy.state is ResponseState.COMPLETED
    assert b.count(catalogue.TAKE_OVERS) == 0


async def test_a_task_that_cannot_be_reached_is_followed_in_the_store() -> None:
    a, b, stream = await answering("abc")
    a.shared.peers.cut(a.address)
    copy = await b.find(stream.response_id)
    reader = b.read(copy)
    assert (copy.via, reader.held.text) == ("store", "abc")
    a.source.calls[0].push("d")
    await a.clock.pass_time(0.4)
    assert reader.held.text == "abcd"


async def test_a_response_that_a_newer_version_writes_is_refused_until_this_one_knows_its_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b, stream = await answering("abc")
    stream.push_part(Part(PartKind.REASONING, "hm"))
    await a.clock.pass_time(0.4)
    with monkeypatch.context() as version_before:
        version_before.setattr("evenflow.stream_core.stores.response_store.NEWEST_FORM", TEXT_FORM)
        refusal = await outcome(asyncio.create_task(b.find(stream.response_id)))
        assert isinstance(refusal, Overloaded)
        assert (refusal.code, refusal.retry_after_ms) == ("newer_form", 1_000)
    copy = await b.find(stream.response_id)
    assert copy.log.entries == stream.log.entries


async def test_however_many_ask_at_once_the_store_is_asked_once_and_the_owner_once() -> None:
    a, b, stream = await answering("a")
    b.responses.network.hold("head")
    finding = [asyncio.create_task(b.find(stream.response_id)) for _ in range(50)]
    await settle()
    b.responses.network.release()
    copies = [await outcome(one) for one in finding]
    assert {id(copy) for copy in copies} == {id(copies[0])}
    assert b.responses.network.calls["head"] == 1
    assert a.shared.peers.asked[a.address] == 1
    assert len(b.replicas) == 1
    assert await b.find(stream.response_id) is copies[0]
    assert b.responses.network.calls["head"] == 1


async def test_of_many_that_ask_at_once_one_that_hangs_up_takes_nobody_with_it() -> None:
    _, b, stream = await answering("a")
    b.responses.network.hold("head")
    finding = [asyncio.create_task(b.find(stream.response_id)) for _ in range(3)]
    await settle()
    finding[0].cancel()
    await settle()
    b.responses.network.release()
    assert isinstance(await outcome(finding[1]), ResponseStream)
    assert isinstance(await outcome(finding[2]), ResponseStream)


async def test_another_session_s_response_is_not_found_while_its_own_session_asks() -> None:
    _, b, stream = await answering("a")
    b.responses.network.hold("head")
    finding = [
        asyncio.create_task(b.find(stream.response_id, channel))
        for channel in (OTHER, CHANNEL, OTHER)
    ]
    await settle()
    b.responses.network.release()
    others, mine = [await outcome(finding[0]), await outcome(finding[2])], await outcome(finding[1])
    assert [code(other) for other in others] == ["response_not_found"] * 2
    assert isinstance(mine, ResponseStream)
    with pytest.raises(NotFound):
        await b.find(stream.response_id, OTHER)


async def test_what_nobody_knows_is_not_found_and_looked_for_again_when_asked_again() -> None:
    _, b, _ = await answering()
    for _ in range(2):
        with pytest.raises(NotFound):
            await b.find("rsp_nothing")
    assert b.responses.network.calls["head"] == 2
    assert len(b.replicas) == 0


async def test_what_ended_elsewhere_is_found_and_expires_here_as_a_response_of_its_own_would() -> (
    None
):
    a, b, stream = await answering("ab")
    await a.answer("c")
    copy = await b.find(stream.response_id)
    assert (copy.state, copy.log.text) == (ResponseState.COMPLETED, "abc")
    assert len(b.replicas) == 0
    b.orchestrator.sweep(b.clock.now + 299.0)
    assert await b.find(stream.response_id) is copy
    b.orchestrator.sweep(b.clock.now + 301.0)
    assert len(b.orchestrator.responses) == 0
    with pytest.raises(Gone):
        b.orchestrator.responses.get(stream.response_id, CHANNEL)


# -- not reached -----------------------------------------------------------------------------------


async def test_while_the_store_is_down_all_that_ask_hear_that_and_later_it_is_found() -> None:
    _, b, stream = await answering("a")
    b.responses.network.failures["head"] = UNREACHABLE
    finding = [asyncio.create_task(b.find(stream.response_id)) for _ in range(3)]
    found = [await outcome(one) for one in finding]
    assert [(code(one), one.status) for one in found if isinstance(one, EvenflowError)] == [
        ("store_unavailable", 503)
    ] * 3
    b.responses.network.failures.clear()
    assert (await b.find(stream.response_id)).log.text == "a"


async def test_a_store_that_goes_down_in_the_middle_of_it_keeps_nobody_waiting_without_end() -> (
    None
):
    _, b, stream = await answering("a")
    for call in ("lease", "entries"):
        b.responses.network.failures[call] = UNREACHABLE
    finding = asyncio.create_task(b.find(stream.response_id))
    await b.clock.pass_time(6.0, step=0.05)
    assert finding.done()
    copy = await outcome(finding)
    assert isinstance(copy, ResponseStream)
    reader = b.read(copy)
    b.responses.network.failures.clear()
    await b.clock.pass_time(0.5)
    assert reader.held.text == "a"


async def test_whatever_goes_wrong_with_a_copy_its_readers_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    a, b, stream = await answering("a")
    copy = await b.find(stream.response_id)
    reader = b.read(copy)
    b.responses.network.failures["leases"] = ValueError("a bug in the store")
    a.shared.peers.cut(a.address)
    await b.clock.pass_time(3.0)
    assert reader.left_behind
    assert len(b.replicas) == 0
    assert b.orchestrator.responses.of_any_session(stream.response_id) is None
    assert "a bug in the store" in caplog.text
    b.responses.network.failures.clear()
    assert await b.find(stream.response_id) is not copy


# -- left ------------------------------------------------------------------------------------------


async def test_what_nobody_reads_is_followed_no_more_and_found_again_when_somebody_comes() -> None:
    a, b, stream = await answering("a")
    copy = await b.find(stream.response_id)
    await b.clock.pass_time(9.0, step=0.05)
    b.orchestrator.sweep(b.clock.now)
    assert len(b.replicas) == 1
    a.source.calls[0].push("b")
    await b.clock.pass_time(1.5)
    b.orchestrator.sweep(b.clock.now)
    await settle()
    assert (len(b.replicas), a.shared.peers.followers) == (0, 0)
    assert b.orchestrator.responses.of_any_session(stream.response_id) is None
    again = await b.find(stream.response_id)
    assert again is not copy
    assert again.log.text == "ab"


async def test_what_somebody_reads_is_followed_as_long_as_it_takes() -> None:
    a, b, stream = await answering("a")
    reader = b.read(await b.find(stream.response_id))
    for _ in range(20):
        await b.clock.pass_time(1.0, step=0.05)
        b.orchestrator.sweep(b.clock.now)
    assert not reader.left_behind
    await a.answer("b")
    await b.clock.pass_time(
        0.5
    )  # its owner was silent for so long that the copy may be the record's at this moment
    assert reader.held.text == "ab"


async def test_a_copy_that_diverged_is_dropped_and_the_next_one_is_right() -> None:
    a, b, stream = await answering("ab")
    reader = b.read(await b.find(stream.response_id))
    # What a says now never gets on record.
    a.responses.network.cut = True
    a.source.calls[0].push("c")
    await a.clock.pass_time(0.2)
    assert reader.held.text == "abc"
    a.cut_off()
    await b.clock.pass_time(12.0, step=0.05)
    assert reader.left_behind
    copy = await b.find(stream.response_id)
    assert (copy.via, copy.epoch) == ("owner", 2)
    assert copy.log.entries == ["a", "b", Restart(1, 2, 2)]


# -- handed to this task meanwhile -----------------------------------------------------------------


async def test_a_look_that_ends_after_this_task_has_taken_the_response_over_finds_it_here() -> None:
    a, b, stream = await answering("ab")
    b.responses.network.hold("head")
    finding = asyncio.create_task(b.find(stream.response_id))
    await settle()
    a.cut_off()
    await b.clock.pass_time(12.0, step=0.05)
    own = b.orchestrator.responses.of_any_session(stream.response_id)
    assert own is not None
    assert own.via == "owner"
    b.responses.network.release()
    assert await outcome(finding) is own
    assert b.orchestrator.responses.of(CHANNEL) == [own]
    assert len(b.replicas) == 0
    with pytest.raises(NotFound):
        await b.find(stream.response_id, OTHER)


async def test_a_copy_gives_way_when_this_task_takes_the_response_over_and_does_not_come_back() -> (
    None
):
    a, b, stream = await answering("ab")
    copy = await b.find(stream.response_id)
    reader = b.read(copy)
    a.shared.peers.cut(a.address)
    await b.clock.pass_time(0.3)
    a.cut_off()
    await b.clock.pass_time(12.0, step=0.05)
    own = await b.find(stream.response_id)
    assert own is not copy
    assert reader.left_behind
    # The own answer ends, and expires in its time, while the copy's following may still be under
    # way.
    b.read(own)
    await b.answer("xyz")
    assert own.state is ResponseState.COMPLETED
    await b.clock.pass_time(3.0)
    b.orchestrator.sweep(b.clock.now)
    await settle()
    assert len(b.replicas) == 0
    assert await b.find(stream.response_id) is own
    for _ in range(3):
        b.orchestrator.sweep(b.clock.now + 301.0)
    assert len(b.orchestrator.responses) == 0


@pytest.mark.parametrize("phase", [0.0, 0.4, 0.8, 1.2, 1.6])
async def test_a_copy_that_ends_after_it_gave_way_is_no_response_any_more(phase: float) -> None:
    """Whether its following or the sweep took it over: the following may read the end that this
    task has written.
    """
    a, b, stream = await answering("ab")
    await b.clock.pass_time(phase)
    a.shared.peers.cut(a.address)
    reader = b.read(await b.find(stream.response_id))
    a.cut_off()
    for _ in range(60):
        await b.clock.pass_time(0.25)
        if b.source.calls:
            break
    await b.answer("x")
    await b.clock.pass_time(0.9)
    own = await b.find(stream.response_id)
    assert (own.via, own.state) == ("owner", ResponseState.COMPLETED)
    assert reader.left_behind
    assert b.orchestrator.responses.of(CHANNEL) == [own]
    for _ in range(3):
        b.orchestrator.sweep(b.clock.now + 301.0)
    assert len(b.orchestrator.responses) == 0


async def test_an_own_answer_that_nobody_reads_is_not_dropped_because_it_was_once_followed() -> (
    None
):
    a, b, stream = await answering("ab")
    b.read(await b.find(stream.response_id))
    # a goes on and b still hears of it, but a's lease is lost.
    a.responses.network.cut = a.sessions.network.cut = True
    await b.clock.pass_time(12.0, step=0.05)
    own = b.orchestrator.responses.of_any_session(stream.response_id)
    assert own is not None
    assert own.via == "owner"
    b.orchestrator.sweep(b.clock.now)
    await settle()
    assert len(b.replicas) == 0, "a is not heard any more"
    for _ in range(15):
        await b.clock.pass_time(1.0, step=0.05)
        b.orchestrator.sweep(b.clock.now)
    assert b.orchestrator.responses.of_any_session(stream.response_id) is own


# -- cancelled -------------------------------------------------------------------------------------


async def test_a_cancel_is_done_by_the_owner_and_heard_here() -> None:
    a, b, stream = await answering("a")
    copy = await b.find(stream.response_id)
    reader = b.read(copy)
    assert await b.orchestrator.cancel(copy) is ResponseState.CANCELLED
    await settle()
    assert stream.state is ResponseState.CANCELLED
    assert a.source.open_calls == 0
    assert (copy.state, reader.held.text) == (ResponseState.CANCELLED, "a")
    assert await b.orchestrator.cancel(copy) is ResponseState.CANCELLED


@pytest.mark.parametrize("how", ["no connection", "store down", "lease lost"])
async def test_a_cancel_that_the_owner_cannot_be_told_of_is_refused_and_changes_nothing(
    how: str,
) -> None:
    a, b, stream = await answering("a")
    copy = await b.find(stream.response_id)
    match how:
        case "no connection":
            a.shared.peers.cut(a.address)
        case "store down":
            b.responses.network.failures["lease"] = UNREACHABLE
        case _:
            await a.shared.memory.release("a")
    with pytest.raises(EvenflowError) as refused:
        await b.orchestrator.cancel(copy)
    assert (refused.value.status, refused.value.code) == (503, "owner_unreachable")
    assert not copy.log.closed
    assert not stream.log.closed


async def test_what_has_ended_needs_no_owner_to_be_cancelled() -> None:
    a, b, stream = await answering("a")
    await a.answer("b")
    copy = await b.find(stream.response_id)
    a.cut_off()
    assert await b.orchestrator.cancel(copy) is ResponseState.COMPLETED
