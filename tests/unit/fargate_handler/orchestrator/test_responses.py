from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.responses import Responses
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Gone, NotFound
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.delivery.response_stream import ResponseStream
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader

MINE, OTHER = Channel("public", "demo", "mine"), Channel("public", "demo", "other")


def responses_within(limits: Limits) -> Responses:
    # All clocks begin with the same moment, and none is turned here: `sweep` is told the time.
    return Responses(limits, MemoryAccount(limits), HandTurnedClock().monotonic)


def held(
    responses: Responses, clock: HandTurnedClock, name: str, channel: Channel = MINE
) -> ResponseStream:
    stream = ResponseStream(
        response_id=name,
        message_id=f"m of {name}",
        channel=channel,
        clock=clock.delivery,
        limits=Limits(),
        monotonic=clock.monotonic,
    )
    responses.add(stream)
    return stream


def end(responses: Responses, stream: ResponseStream) -> None:
    stream.cancel()
    responses.ended(stream)


def test_a_response_is_found_by_its_session_and_by_no_other() -> None:
    responses = responses_within(Limits())
    stream = held(responses, HandTurnedClock(), "rsp_1")
    assert responses.get("rsp_1", MINE) is stream
    for channel in (OTHER, Channel("public", "other", "mine"), Channel("acme", "demo", "mine")):
        with pytest.raises(NotFound) as refusal:
            responses.get("rsp_1", channel)
        assert refusal.value.code == "response_not_found"


def test_the_responses_of_a_session_come_oldest_first() -> None:
    responses, clock = responses_within(Limits()), HandTurnedClock()
    streams = [held(responses, clock, f"rsp_{number}") for number in range(3)]
    held(responses, clock, "rsp_x", OTHER)
    assert responses.of(MINE) == streams
    assert responses.of(Channel("a", "b", "c")) == []
    assert len(responses) == 4


@pytest.mark.parametrize(("ttl", "held_for"), [(86_400.0, 300.0), (20.0, 20.0)])
def test_an_ended_response_is_held_for_minutes_and_is_then_gone_for_its_session_only(
    ttl: float, held_for: float
) -> None:
    responses, clock = responses_within(Limits(response_ttl_seconds=ttl)), HandTurnedClock()
    end(responses, held(responses, clock, "rsp_1"))
    responses.sweep(clock.now + held_for - 0.1)
    assert responses.get("rsp_1", MINE)
    responses.sweep(clock.now + held_for)
    with pytest.raises(Gone) as gone:
        responses.get("rsp_1", MINE)
    assert gone.value.code == "response_expired"
    with pytest.raises(NotFound):
        responses.get("rsp_1", OTHER)
    assert (len(responses), responses.of(MINE)) == (0, [])


def test_a_copy_of_what_ended_long_ago_is_held_from_when_it_was_made() -> None:
    """Its reader has come back now, and acknowledges what it is given."""
    responses, clock = responses_within(Limits()), HandTurnedClock()
    copy = held(responses, clock, "rsp_1")
    copy.follow(["x"])
    copy.cancel()
    copy.ended_at = clock.now - 28_800.0
    responses.ended(copy)
    responses.sweep(clock.now + 299.0)
    assert responses.get("rsp_1", MINE) is copy


def test_a_running_response_is_never_swept() -> None:
    responses, clock = responses_within(Limits()), HandTurnedClock()
    running = held(responses, clock, "rsp_1")
    responses.sweep(clock.now + 1e6)
    assert responses.get("rsp_1", MINE) is running


def test_what_someone_still_reads_is_kept_until_that_reader_has_left_and_holds_up_no_other() -> (
    None
):
    responses, clock = responses_within(Limits()), HandTurnedClock()
    read = held(responses, clock, "rsp_read")
    reader = RecordingReader(read, clock, AssembledText())
    read.attach(reader)
    reader.pause()
    end(responses, read)
    end(responses, held(responses, clock, "rsp_2"))
    responses.sweep(clock.now + 400.0)
    assert responses.of(MINE) == [read]
    reader.resume()
    responses.sweep(clock.now + 401.0)
    assert responses.of(MINE) == []


def test_only_so_many_expired_responses_are_remembered() -> None:
    responses, clock = responses_within(Limits(expired_responses_remembered=2)), HandTurnedClock()
    for number in range(4):
        end(responses, held(responses, clock, f"rsp_{number}"))
    responses.sweep(clock.now + 400.0)
    for number, error in enumerate([NotFound, NotFound, Gone, Gone]):
        with pytest.raises(error):
            responses.get(f"rsp_{number}", MINE)


def test_a_long_made_up_id_is_not_repeated_in_full() -> None:
    with pytest.raises(NotFound) as refusal:
        responses_within(Limits()).get("x" * 100_000, MINE)
    assert len(refusal.value.message) < 200


# -- copies ----------------------------------------------------------------------------------------


def test_what_is_held_is_seen_without_asking_whether_it_may_be() -> None:
    responses = responses_within(Limits())
    stream = held(responses, HandTurnedClock(), "rsp_1")
    assert responses.of_any_session("rsp_1") is responses.of_session("rsp_1", MINE) is stream
    assert responses.of_session("rsp_1", OTHER) is None
    assert responses.of_any_session("rsp_2") is responses.of_session("rsp_2", MINE) is None


def test_a_copy_that_is_dropped_was_never_there_and_another_one_takes_its_place() -> None:
    responses, clock = responses_within(Limits()), HandTurnedClock()
    copy = held(responses, clock, "rsp_1")
    responses.drop(copy)
    assert not responses.remembers("rsp_1")
    with pytest.raises(NotFound):
        responses.get("rsp_1", MINE)
    assert (len(responses), responses.of(MINE)) == (0, [])
    successor = held(responses, clock, "rsp_1")
    responses.drop(copy)
    assert responses.get("rsp_1", MINE) is successor
    assert responses.of(MINE) == [successor]


def test_an_ended_copy_that_is_dropped_makes_room_and_does_not_expire_later() -> None:
    responses, clock = responses_within(Limits(responses_held_bytes=1_048_576)), HandTurnedClock()
    copies = [held(responses, clock, f"rsp_{number}") for number in range(2)]
    for copy in copies:
        copy.follow(["x" * 600_000])
    end(responses, copies[0])
    responses.drop(copies[0])
    end(responses, copies[1])
    assert responses.get("rsp_1", MINE) is copies[1], "the first one's text does not count any more"
    responses.sweep(clock.now + 301.0)
    with pytest.raises(NotFound):
        responses.get("rsp_0", MINE)
    with pytest.raises(Gone):
        responses.get("rsp_1", MINE)


def test_whom_there_is_to_deliver_to_is_counted_by_tenant() -> None:
    responses, clock = responses_within(Limits()), HandTurnedClock()
    assert not responses.readers()
    mine, others, waiting, ended, copy = (
        held(responses, clock, f"rsp_{number}", Channel(tenant, "demo", str(number)))
        for number, tenant in enumerate(("mine", "other", "mine", "mine", "other"))
    )
    for stream in (mine, others, ended):
        stream.start()
        stream.push("x")
    copy.follow(["y"])
    for stream in (mine, mine, mine, waiting, ended, copy, copy):
        stream.attach(RecordingReader(stream, clock, AssembledText()))
    end(responses, ended)
    assert responses.readers() == {"mine": 3, "other": 1 + 2}, "one where nobody reads"
    mine.backpressure.park()
    assert responses.readers() == {"other": 3}
