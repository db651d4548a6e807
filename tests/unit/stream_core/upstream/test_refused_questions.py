"""Whom a refusal holds back: its question, its sender, or everybody."""

from __future__ import annotations

import pytest

from evenflow.stream_core.upstream.refused_questions import Held, Question, RefusedQuestions


class Server:
    """Refusals one after the other: who, what was asked, for which answer, when, for how long."""

    def __init__(self) -> None:
        self._refused = RefusedQuestions()

    def refuses(
        self, sender: str, text: str, call: str, now: float = 0.0, pause: float = 5.0
    ) -> Held:
        return self._refused.refused(Question(sender, text, call), pause, now)

    def takes(self) -> None:
        self._refused.taken()


def test_one_question_that_is_refused_holds_nobody_else() -> None:
    assert Server().refuses("a", "big", "1") is Held.QUESTION


def test_one_that_is_sent_again_and_again_never_does_whoever_sends_it() -> None:
    server = Server()
    senders = "ab" * 10
    held = {server.refuses(who, "big", str(at), float(at)) for at, who in enumerate(senders)}
    assert held == {Held.QUESTION}


def test_nor_does_one_whose_call_is_made_again() -> None:
    server = Server()
    assert [server.refuses("a", "q", "1", now=float(at)) for at in range(3)] == [Held.QUESTION] * 3


def test_another_question_of_its_sender_holds_the_sender() -> None:
    server = Server()
    server.refuses("a", "big", "1")
    assert server.refuses("a", "small", "2", now=1.0) is Held.SENDER


def test_one_of_another_sender_holds_everybody() -> None:
    server = Server()
    server.refuses("a", "big", "1")
    assert server.refuses("b", "small", "2", now=1.0) is Held.EVERYBODY


@pytest.mark.parametrize(("now", "held"), [(9.9, Held.EVERYBODY), (10.1, Held.QUESTION)])
def test_a_refusal_counts_for_two_of_its_pauses(now: float, held: Held) -> None:
    server = Server()
    server.refuses("a", "big", "1", now=0.0, pause=5.0)
    assert server.refuses("b", "small", "2", now=now) is held


def test_a_server_that_takes_a_call_meanwhile_has_room_for_others() -> None:
    server = Server()
    server.refuses("a", "big", "1")
    server.takes()
    assert server.refuses("b", "bigger", "2", now=1.0) is Held.QUESTION
