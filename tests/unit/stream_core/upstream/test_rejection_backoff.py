"""What pauses after rejections, and for how long."""

from __future__ import annotations

from math import inf

import pytest

from evenflow.stream_core.upstream.rejection_backoff import (
    PauseScope,
    RejectedCall,
    RejectionBackoff,
)

LATEST = 1.101  # of what the server says


def pauses_of(
    backoff: RejectionBackoff,
    rejections: int,
    since: float = 0.0,
    *,
    concurrent: bool = False,
    on_other_nodes: bool = False,
) -> list[float]:
    """The pause after each of some rejections, 100 s apart."""
    pauses = []
    for number in range(rejections):
        now = since + 100.0 * number
        backoff.record_rejection(
            now, now, None, concurrent=concurrent, on_other_nodes=on_other_nodes
        )
        pauses.append(round(backoff.paused_for(now) / 1.1, 6))
    return pauses


def test_without_a_rejection_there_is_no_pause() -> None:
    assert RejectionBackoff().paused_for(0.0) == 0.0
    assert RejectionBackoff().sender_paused_until("a") == -inf


def test_nothing_starts_before_the_server_said() -> None:
    backoff = RejectionBackoff()
    backoff.record_rejection(5.0, 5.0, 3.0)
    assert 3.0 <= backoff.paused_for(5.0) <= 3.0 * LATEST
    assert backoff.paused_for(5.0 + 3.0 * LATEST) == 0.0


def test_where_the_server_says_nothing_the_pause_doubles_until_a_call_is_accepted() -> None:
    backoff = RejectionBackoff()
    assert pauses_of(backoff, 7) == [0.25, 0.5, 1, 2, 4, 8, 8]
    backoff.record_acceptance(began_at=650.0)
    assert pauses_of(backoff, 1, since=700.0) == [0.25]


def test_one_rejection_beside_calls_that_run_pauses_nothing() -> None:
    """A probe for more room: the end of another call makes room, and it comes without a pause."""
    backoff = RejectionBackoff()
    assert pauses_of(backoff, 4, concurrent=True) == [0, 0.25, 0.5, 1]
    backoff.record_acceptance(began_at=350.0)
    assert pauses_of(backoff, 1, since=400.0, concurrent=True) == [0]


def test_a_call_that_started_before_the_last_rejection_says_nothing_of_now() -> None:
    backoff = RejectionBackoff()
    assert pauses_of(backoff, 2, concurrent=True) == [0, 0.25]
    backoff.record_acceptance(began_at=99.0)
    assert pauses_of(backoff, 1, since=300.0, concurrent=True) == [0.5]


def test_while_calls_of_other_nodes_run_the_pause_stays_short() -> None:
    assert pauses_of(RejectionBackoff(), 5, on_other_nodes=True) == [0.05] * 5


def test_calls_that_are_rejected_together_lengthen_the_pause_once() -> None:
    backoff = RejectionBackoff()
    for left in reversed(range(20)):
        backoff.record_rejection(5.0, 4.0, None, concurrent=left > 0)
    assert backoff.in_a_row == 1
    assert backoff.paused_for(5.0) == pytest.approx(0.25 * 1.1)


def test_a_pause_never_becomes_shorter() -> None:
    backoff = RejectionBackoff()
    backoff.pause(0.0, 10.0)
    backoff.pause(0.0, 1.0)
    assert backoff.paused_for(0.0) == pytest.approx(10.0)


def test_a_server_that_names_next_to_no_time_is_believed_three_times() -> None:
    backoff, pauses = RejectionBackoff(), list[float]()
    for number in range(5):
        now = 100.0 * number
        backoff.record_rejection(now, now, 0.1)
        pauses.append(backoff.paused_for(now))
    assert pauses == pytest.approx([0.11, 0.11, 0.11, 2.2, 4.4])


def test_it_knows_since_when_every_call_has_been_rejected() -> None:
    backoff = RejectionBackoff()
    assert backoff.rejecting_since == inf
    backoff.record_rejection(5.0, 4.0, None)
    backoff.record_rejection(6.0, 4.0, None)
    assert backoff.rejecting_since == 5.0
    backoff.record_acceptance(began_at=4.0)
    assert backoff.rejecting_since == inf


# -- what a rejection with a named time pauses -----------------------------------------------------


class Server:
    """Rejections one after the other: sender, question, answer, when, for how long."""

    def __init__(self) -> None:
        self.backoff = RejectionBackoff()

    def rejects(
        self, sender: str, text: str, call: str, now: float = 0.0, pause: float = 5.0
    ) -> PauseScope:
        asked = RejectedCall(sender, text, call)
        return self.backoff.record_rejection(now, now, pause / 1.1, asked).scope


def test_one_question_that_is_rejected_pauses_no_other() -> None:
    server = Server()
    assert server.rejects("a", "big", "1") is PauseScope.QUESTION
    assert server.backoff.paused_for(0.0) == 0.0
    assert server.backoff.sender_paused_until("a") == -inf


def test_one_that_is_sent_again_and_again_never_does() -> None:
    server = Server()
    senders = "ab" * 10
    paused = {server.rejects(name, "big", str(at), float(at)) for at, name in enumerate(senders)}
    assert paused == {PauseScope.QUESTION}


def test_nor_does_one_whose_call_is_made_again() -> None:
    server = Server()
    again = [server.rejects("a", "q", "1", now=float(at)) for at in range(3)]
    assert again == [PauseScope.QUESTION] * 3


def test_another_question_of_its_sender_pauses_the_sender() -> None:
    server = Server()
    server.rejects("a", "big", "1")
    assert server.rejects("a", "small", "2", now=1.0) is PauseScope.SENDER
    assert server.backoff.sender_paused_until("a") == pytest.approx(6.0)
    assert server.backoff.sender_paused_until("b") == -inf


def test_one_of_another_sender_pauses_all() -> None:
    server = Server()
    server.rejects("a", "big", "1")
    assert server.rejects("b", "small", "2", now=1.0) is PauseScope.ALL
    assert server.backoff.paused_for(1.0) == pytest.approx(5.0)


@pytest.mark.parametrize(("now", "paused"), [(9.9, PauseScope.ALL), (10.1, PauseScope.QUESTION)])
def test_a_rejection_counts_for_two_of_its_pauses(now: float, paused: PauseScope) -> None:
    server = Server()
    server.rejects("a", "big", "1", now=0.0, pause=5.0)
    assert server.rejects("b", "small", "2", now=now) is paused


def test_a_server_that_accepts_a_call_meanwhile_has_room_for_others() -> None:
    server = Server()
    server.rejects("a", "big", "1")
    server.backoff.record_acceptance(began_at=0.5)
    assert server.rejects("b", "bigger", "2", now=1.0) is PauseScope.QUESTION
