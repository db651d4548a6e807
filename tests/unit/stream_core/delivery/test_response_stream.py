from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import CHAT, COMPLETION, Channel, MessageKind
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS, slots_of
from evenflow.stream_core.delivery.response_stream import ResponseFull, ResponseStream
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import IllegalTransition, LogClosed, ResponseState
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, Delivery, RecordingReader

CHANNEL = Channel("public", "demo", "ses_1")


def new_stream(
    clock: HandTurnedClock,
    limits: Limits | None = None,
    *,
    start: bool = True,
    kind: MessageKind = CHAT,
) -> ResponseStream:
    stream = ResponseStream(
        response_id="rsp_1",
        message_id="m1",
        channel=CHANNEL,
        clock=clock.delivery,
        limits=limits or Limits(),
        monotonic=clock.monotonic,
        kind=kind,
    )
    if start:
        stream.start()
    return stream


def reading(stream: ResponseStream, clock: HandTurnedClock) -> RecordingReader:
    reader = RecordingReader(stream, clock, AssembledText())
    stream.attach(reader)
    return reader


# -- first, in between, last -----------------------------------------------------------------------


def test_the_first_token_is_delivered_at_once() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("Even")
    assert reader.held.text == "Even"


def test_tokens_within_the_window_wait_for_its_end_and_are_one_delta() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    for token in ("a", "b", "c"):
        stream.push(token)
    clock.turn_slots(5)
    assert reader.held.text == "a"
    clock.turn_slots(1)
    assert [delivery.taken for delivery in reader.deliveries] == [("a",), ("bc",)]


def test_after_a_silence_the_next_token_is_delivered_at_once() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("a")
    clock.turn_slots(20)
    stream.push("b")
    assert reader.held.text == "ab"


def test_an_empty_token_does_not_use_up_the_first_delivery() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("")
    assert stream.first_delta_at is None
    stream.push("Hello")
    assert reader.held.text == "Hello"
    assert stream.log.entries == ["Hello"]


def test_empty_tokens_make_no_empty_delta() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, Limits(batch_tokens=2))
    stream.push("a")
    for _ in range(6):
        stream.push("")
    clock.turn_slots(10)
    stream.complete("stop", None)
    assert stream.log.entries == ["a"]


def test_a_full_batch_is_cut_into_the_log_but_delivered_in_its_interval() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, Limits(batch_tokens=3))
    reader = reading(stream, clock)
    for token in "abcdefgh":
        stream.push(token)
    assert stream.log.entries == ["a", "bcd", "efg"]
    assert reader.held.text == "a"
    clock.turn_slots(6)
    assert stream.log.entries == ["a", "bcd", "efg", "h"]
    assert [delivery.taken for delivery in reader.deliveries] == [("a",), ("bcdefgh",)]


def test_the_last_tokens_are_delivered_at_once_with_the_end() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("a")
    stream.push("b")
    stream.complete("stop", Usage(prompt_tokens=1, completion_tokens=2))
    assert reader.held.text == "ab"
    assert not stream.readers
    assert (stream.state, stream.finish_reason) == (ResponseState.COMPLETED, "stop")
    assert stream.usage == Usage(prompt_tokens=1, completion_tokens=2)
    assert stream.ended_at == clock.now


def test_what_stood_on_the_clock_when_the_response_ended_changes_nothing() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("a")
    stream.push("b")
    stream.cancel()
    clock.turn(1.0)
    assert stream.log.entries == ["a", "b"]


# -- everything at once ----------------------------------------------------------------------------


@dataclass
class Visitor:
    """One client of the response: it comes, pauses, goes and comes back; what it holds stays
    with it.
    """

    stream: ResponseStream
    clock: HandTurnedClock
    held: AssembledText = field(default_factory=AssembledText)
    reader: RecordingReader | None = None

    def come_or_go(self) -> None:
        if self.reader is not None and self.reader in self.stream.readers:
            self.reader.leave()
            self.reader = None
        else:
            self.reader = RecordingReader(self.stream, self.clock, self.held)
            self.stream.attach(self.reader)

    def pause_or_go_on(self) -> None:
        if self.reader is None:
            return
        if self.reader.paused:
            self.reader.resume()
        else:
            self.reader.pause()

    def come_at_last(self) -> None:
        if self.reader is not None:
            self.reader.resume()
        elif not self.stream.log.closed or self.held.next_index < self.stream.log.next_index:
            self.come_or_go()


# A token of the model; so many slots; the number of a visitor who comes or goes (100 + n: pauses or
# goes on); a restart.
TOKEN, TURN, VISIT, PAUSE, RESTART = "token", "turn", "visit", "pause", "restart"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just(TOKEN), st.integers(1, 5)),
        st.tuples(st.just(TURN), st.integers(1, 8)),
        st.tuples(st.just(VISIT), st.integers(0, 2)),
        st.tuples(st.just(PAUSE), st.integers(0, 2)),
        st.tuples(st.just(RESTART), st.just(1)),
    ),
    max_size=60,
)


class Play:
    """A response, three visitors, and what a model and they do one after another."""

    def __init__(self, batch_tokens: int) -> None:
        self.clock = HandTurnedClock()
        self.stream = new_stream(
            self.clock, Limits(batch_tokens=batch_tokens, pause_window_bytes=0)
        )
        self.visitors = [Visitor(self.stream, self.clock) for _ in range(3)]
        self.standing: list[str] = []
        """The tokens since the last restart."""

    def do(self, what: str, amount: int) -> None:
        match what:
            case "token":
                for token in range(amount):
                    text = chr(ord("a") + (len(self.standing) + token) % 26)
                    self.stream.push(text)
                    self.standing.append(text)
            case "turn":
                self.clock.turn_slots(amount)
            case "visit":
                self.visitors[amount].come_or_go()
            case "pause":
                self.visitors[amount].pause_or_go_on()
            case _:
                self.stream.next_attempt()
                self.stream.restart()
                self.standing.clear()

    def end(self, how: str) -> None:
        match how:
            case "complete":
                self.stream.complete("stop", None)
            case "fail":
                self.stream.fail({})
            case _:
                self.stream.cancel()
        for visitor in self.visitors:
            visitor.come_at_last()


@given(STEPS, st.sampled_from(["complete", "fail", "cancel"]), st.integers(1, 5))
def test_nothing_is_lost_or_given_twice_whatever_comes_between(
    steps: list[tuple[str, int]], end: str, batch_tokens: int
) -> None:
    play = Play(batch_tokens)
    for what, amount in steps:
        play.do(what, amount)
    play.end(end)
    stream = play.stream
    assert stream.log.text == "".join(play.standing)
    assert all(len(entry) <= batch_tokens for entry in stream.log.entries if isinstance(entry, str))
    for visitor in play.visitors:
        assert visitor.held.indexes == list(range(stream.log.next_index))
        assert visitor.held.text == stream.log.text
    assert not stream.readers
    assert (stream.backpressure.paused_readers, stream.paused) == (0, False)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just(TOKEN), st.integers(1, 30)),
            st.tuples(st.just(TURN), st.integers(1, 9)),
            st.tuples(st.just(RESTART), st.just(1)),
        ),
        max_size=60,
    ),
    st.sampled_from([50, 70, 120]),
)
def test_deliveries_of_text_are_never_closer_than_the_interval(
    steps: list[tuple[str, int]], window_ms: int
) -> None:
    clock = HandTurnedClock(window_ms, 200)
    stream = new_stream(clock, Limits(batch_window_ms=window_ms))
    reader = reading(stream, clock)
    for what, amount in steps:
        if what == TOKEN:
            for _ in range(amount):
                stream.push("x")
        elif what == TURN:
            clock.turn_slots(amount)
        else:
            stream.next_attempt()
            stream.restart()
    clock.turn_slots(30)
    previous: Delivery | None = None
    for delivery in reader.deliveries:
        # A restart is told at once: what it takes back should not stand a moment longer.
        restarts = any(isinstance(taken, Restart) for taken in delivery.taken)
        if previous is not None and not restarts:
            assert delivery.slot - previous.slot >= slots_of(window_ms)
        previous = delivery


@given(st.lists(st.integers(0, 12), max_size=60))
def test_every_token_is_delivered_within_the_interval(pauses: list[int]) -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    pushed_in: list[int] = []
    for pause in pauses:
        pushed_in.append(clock.delivery.position)
        stream.push("x")
        clock.turn_slots(pause)
    clock.turn_slots(6)
    delivered_in = [
        delivery.slot
        for delivery in reader.deliveries
        for text in delivery.taken
        for _ in str(text)
    ]
    assert len(delivered_in) == len(pushed_in)
    assert all(0 <= out - into <= 5 for into, out in zip(pushed_in, delivered_in, strict=True))


def test_a_program_is_given_each_token_when_it_comes_until_the_node_is_busy() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, kind=COMPLETION)
    reader = reading(stream, clock)
    for token in "abc":
        stream.push(token)
    assert reader.held.text == "abc"
    clock.hold_interval(2)
    for token in "defgh":
        stream.push(token)
        clock.turn_slots(1)
    clock.turn_slots(3)
    taken = [text for delivery in reader.deliveries for text in delivery.taken]
    assert taken == ["a", "b", "c", "d", "ef", "gh"]


def test_streams_that_begin_at_once_are_spread_over_their_interval() -> None:
    clock = HandTurnedClock()
    streams = [new_stream(clock) for _ in range(50)]
    readers = [reading(stream, clock) for stream in streams]
    for _ in range(40):
        for stream in streams:
            stream.push("x")
        clock.turn_slots(1)
    for delivery in (1, 4):
        slots = Counter(reader.deliveries[delivery].slot for reader in readers)
        assert sorted(slots.values()) == [10] * 5
        assert max(slots) - min(slots) == 4
    jitter = [delivery.jitter for reader in readers for delivery in reader.deliveries[1:]]
    assert max(late for late in jitter if late is not None) < SLOT_SECONDS


def test_a_steady_model_is_delivered_in_even_intervals_even_when_the_interval_lengthens() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    for _ in range(100):
        stream.push("x")
        clock.turn_slots(1)
    clock.hold_interval(10)
    for _ in range(100):
        stream.push("x")
        clock.turn_slots(1)
    slots = [delivery.slot for delivery in reader.deliveries]
    gaps = [after - before for before, after in itertools.pairwise(slots)]
    assert set(gaps) <= {5, 9, 10}
    assert gaps == sorted(gaps)
    assert gaps.count(9) == 1, "as it changes, it may go to another slot than its neighbours"


# -- limits and ends -------------------------------------------------------------------------------


def test_a_full_response_takes_no_more_and_keeps_what_it_has() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, Limits(response_bytes=1024))
    stream.push("x" * 1024)
    with pytest.raises(ResponseFull):
        stream.push("y")
    stream.complete("length", None)
    assert stream.log.text == "x" * 1024
    assert stream.tokens == 64, "a long piece is one for each sixteen characters"


@pytest.mark.parametrize("batch_tokens", [1, 10, 1_000])
@pytest.mark.parametrize(("characters", "tokens"), [(256, 1), (257, 16), (400, 25), (4_096, 256)])
def test_a_long_piece_counts_by_its_characters_however_it_is_batched(
    batch_tokens: int, characters: int, tokens: int
) -> None:
    stream = new_stream(HandTurnedClock(), Limits(batch_tokens=batch_tokens))
    stream.push("x" * characters)
    stream.push("x" * characters)
    assert stream.tokens == 2 * tokens


@given(st.integers(1, 200), st.integers(1, 20))
def test_a_response_exceeds_its_size_by_a_batch_at_most(token_size: int, batch_tokens: int) -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, Limits(response_bytes=1024, batch_tokens=batch_tokens))
    accepted = 0
    while stream.log.text_bytes < 1024:
        stream.push("x" * token_size)
        accepted += 1
    with pytest.raises(ResponseFull):
        stream.push("x")
    stream.complete("length", None)
    assert stream.log.text == "x" * token_size * accepted
    assert 1024 <= stream.log.text_bytes < 1024 + token_size * batch_tokens


@pytest.mark.parametrize("ticks", [0, 1, 30])
def test_a_push_behind_the_end_is_refused_at_once(ticks: int) -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("a")
    stream.cancel()
    clock.turn_slots(ticks)
    with pytest.raises(LogClosed):
        stream.push("late")
    assert stream.log.text == "a"


def test_a_response_ends_once() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("a")
    stream.complete("stop", None)
    with pytest.raises(IllegalTransition):
        stream.complete("stop", None)
    with pytest.raises(IllegalTransition):
        stream.cancel()
    with pytest.raises(IllegalTransition):
        stream.fail({"code": "late"})
    assert (stream.state, stream.finish_reason, stream.error) == (
        ResponseState.COMPLETED,
        "stop",
        None,
    )


def test_a_response_that_waits_can_fail_or_be_cancelled() -> None:
    clock = HandTurnedClock()
    failed, cancelled = new_stream(clock, start=False), new_stream(clock, start=False)
    failed.fail({"code": "draining"})
    cancelled.cancel()
    assert (failed.state, cancelled.state) == (ResponseState.ERROR, ResponseState.CANCELLED)
    assert failed.log.closed
    assert cancelled.log.closed


# -- restarts --------------------------------------------------------------------------------------


def test_a_restart_before_anything_was_delivered_is_not_told() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.next_attempt()
    stream.restart()
    stream.push("a")
    assert reader.held.indexes == [0]
    assert stream.attempt == 2


def test_a_restart_replaces_what_was_delivered_and_drops_what_waited() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("wrong")
    stream.push(" start")
    stream.next_attempt()
    stream.restart()
    assert reader.held.text == ""
    stream.push("right")
    stream.complete("stop", None)
    assert stream.log.entries == ["wrong", Restart(-1, 2), "right"]
    assert reader.held.text == stream.log.text == "right"


# -- readers ---------------------------------------------------------------------------------------


def test_it_is_unread_from_the_beginning_until_the_first_reader_and_from_the_last_one_on() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    assert stream.readers.grace_begins_at == clock.now
    clock.turn(1.0)
    first, second = reading(stream, clock), reading(stream, clock)
    assert stream.readers.grace_begins_at is None
    stream.detach(first)
    assert stream.readers.grace_begins_at is None
    clock.turn(1.0)
    stream.detach(second)
    assert stream.readers.grace_begins_at == clock.now
    clock.turn(1.0)
    stream.detach(second)
    assert stream.readers.grace_begins_at == clock.now - 1.0, "leaving twice is leaving once"


def test_a_reader_that_comes_late_is_given_at_once_what_is_there() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("a")
    clock.turn_slots(10)
    stream.push("b")
    assert reading(stream, clock).held.text == "ab"


def test_the_model_is_held_only_while_every_reader_holds_it() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    first, second = reading(stream, clock), reading(stream, clock)
    first.pauses_model = second.pauses_model = True
    assert not stream.paused, "nobody pauses"
    first.pause()
    second.pause()
    assert stream.paused
    second.pauses_model = False
    second.resume()
    assert not stream.paused
    second.leave()
    assert stream.paused
    third = reading(stream, clock)
    assert not stream.paused, "someone else reads"
    third.leave()
    first.leave()
    assert not stream.paused, "nobody reads, nobody pauses"


def test_who_looks_at_pauses_is_called_when_readers_change_and_not_with_each_delivery() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    calls: list[bool] = []
    stream.backpressure.set_on_pause(calls.append)
    for _ in range(20):
        stream.push("a")
        clock.turn_slots(10)
    assert len(calls) <= 1, "nothing has changed: there is no reader"
    calls.clear()
    reader = reading(stream, clock)
    assert calls == [False]
    reader.pauses_model = True
    reader.pause()
    assert calls == [False, True]
    reader.leave()
    assert calls[-1] is False
    calls.clear()
    stream.push("b")
    clock.turn_slots(10)
    assert not calls
    stream.backpressure.notify_again()
    stream.push("c")
    clock.turn_slots(10)
    assert calls == [False]


def test_the_model_is_held_when_the_log_grows_past_the_pause_window() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    reader.pause()
    stream.push("a")
    assert not stream.paused
    reader.pauses_model = True
    stream.push("b")
    clock.turn_slots(10)
    assert stream.paused


@given(st.lists(st.integers(-1, 50), max_size=20))
def test_acknowledged_deltas_count_once_each(indexes: list[int]) -> None:
    stream = new_stream(HandTurnedClock())
    added = [stream.acknowledge(index) for index in indexes]
    assert sum(added) == max([-1, *indexes]) + 1
    assert all(count >= 0 for count in added)
    assert stream.acknowledged == max([-1, *indexes])


# -- what is measured ------------------------------------------------------------------------------


def test_a_silence_in_which_the_model_was_paused_is_no_gap() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("a")
    clock.turn(0.1)
    stream.push("b")
    reader.pauses_model = True
    reader.pause()
    assert stream.paused
    clock.turn(5.0)
    reader.resume()
    stream.push("c")
    clock.turn(0.2)
    stream.push("d")
    stream.complete("stop", None)
    assert stream.figures.gaps is not None
    assert stream.figures.gaps.longest == pytest.approx(0.2)


def jitters(reader: RecordingReader) -> list[float]:
    return [delivery.jitter for delivery in reader.deliveries if delivery.jitter is not None]


def test_the_first_delivery_has_no_jitter_and_one_for_another_reason_has_none() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("a")
    late = reading(stream, clock)
    assert [delivery.jitter for delivery in (*reader.deliveries, *late.deliveries)] == [None, None]


def test_deliveries_in_the_interval_have_no_jitter_and_a_late_one_has_its_lateness() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    for _ in range(50):
        stream.push("x")
        clock.turn_slots(1)
    assert max(jitters(reader)) < 0.001
    stream.push("x")
    clock.now += 0.130
    clock.turn_late()
    assert 0.05 < jitters(reader)[-1] <= 0.130


def test_a_slow_model_s_own_pace_is_no_jitter() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    for _ in range(60):
        stream.push("x")
        clock.turn_slots(30)
    assert max(jitters(reader)) < 0.015


def test_the_time_of_the_first_delta_is_kept() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    clock.turn(1.5)
    stream.push("a")
    first = clock.now
    clock.turn(1.0)
    stream.push("b")
    stream.complete("stop", None)
    assert (stream.first_delta_at, stream.created_at) == (first, 1000.0)


def test_shares_leave_an_eighth_of_the_readers_places_to_the_session_s_own() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, Limits(readers_per_response=8))
    for _ in range(7):
        stream.readers.check_limit(shared=True)
        reading(stream, clock)
    with pytest.raises(RateLimited):
        stream.readers.check_limit(shared=True)
    stream.readers.check_limit()
    reading(stream, clock)
    with pytest.raises(RateLimited):
        stream.readers.check_limit()
