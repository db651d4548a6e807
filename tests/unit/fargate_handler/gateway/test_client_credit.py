"""A WebSocket client that sets the pace: it is given as many entries as it granted, and no token
is lost over it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT, REALTIME, V1
from tests.unit.fargate_handler.gateway.client_harness import Client, Gateway
from tests.unit.fargate_handler.gateway.test_client_changing_hands import reading
from tests.unit.settle import settle

LIMITS = Limits(batch_tokens=1, pause_window_bytes=100, messages_per_second=10_000)


class Listener(Client):
    """Speaks `/realtime`."""

    async def start(self, **fields: object) -> str:
        """Ask; the response's id."""
        self.send("start", id="m1", text="hi", **fields)
        await settle()
        response_id: str = self.transport.of_type("started")[-1]["response_id"]
        return response_id

    def tokens(self) -> list[tuple[int, str]]:
        """The last index and the text of each token frame, after a check that no index is
        missing or comes twice.
        """
        following, tokens = 0, []
        for frame in self.transport.of_type("token"):
            assert frame.get("from", frame["index"]) == following, frame
            following = frame["index"] + 1
            tokens.append((frame["index"], frame["text"]))
        return tokens

    def heard(self) -> str:
        return "".join(text for _, text in self.tokens())


async def listening(limits: Limits = LIMITS, **fields: object) -> tuple[Gateway, Listener, str]:
    gateway = Gateway(limits)
    client = Listener(gateway, REALTIME)
    response_id = await client.start(**fields)
    return gateway, client, response_id


def push(gateway: Gateway, *tokens: str) -> None:
    """Each token is an entry, and delivered as soon as it may be."""
    for token in tokens:
        gateway.call.push(token)
        gateway.clock.turn(0.1)


async def test_without_credit_everything_comes() -> None:
    gateway, client, response_id = await listening()
    push(gateway, *"abc")
    gateway.call.finish()
    await settle()
    assert client.tokens() == [(0, "a"), (1, "b"), (2, "c")]
    assert client.frames[-1] == {
        "type": "final",
        "id": "m1",
        "response_id": response_id,
        "finish_reason": "stop",
        "last_index": 2,
        "usage": None,
        "degraded": False,
    }


async def test_a_credit_of_one_at_a_time() -> None:
    gateway, client, response_id = await listening(credit=1)
    push(gateway, *"abcd")
    assert client.tokens() == [(0, "a")]
    client.send("credit", response_id=response_id, n=1)
    assert client.tokens() == [(0, "a"), (1, "b")]
    client.send("credit", response_id=response_id, n=2)
    assert client.tokens()[2:] == [(3, "cd")], "what waited for credit comes joined"
    gateway.call.finish()
    await settle()
    assert client.frames[-1]["type"] == "final", "the end needs no credit"


async def test_the_end_waits_for_the_credit_that_the_last_tokens_need() -> None:
    gateway, client, response_id = await listening(credit=0)
    push(gateway, *"ab")
    gateway.call.finish()
    await settle()
    assert client.tokens() == []
    assert not client.transport.of_type("final")
    client.send("credit", response_id=response_id, n=1)
    assert client.heard() == "a"
    assert not client.transport.of_type("final")
    client.send("credit", response_id=response_id, n=10)
    assert client.heard() == "ab"
    assert client.frames[-1]["type"] == "final"
    count = len(client.frames)
    client.send("credit", response_id=response_id, n=5)
    assert len(client.frames) == count, "credit that crossed the end is no error"


async def test_an_answer_without_a_token_ends_without_credit() -> None:
    gateway, client, _ = await listening(credit=0)
    gateway.call.finish()
    await settle()
    assert (client.frames[-1]["type"], client.frames[-1]["last_index"]) == ("final", -1)


async def test_credit_given_in_advance_is_kept() -> None:
    gateway, client, response_id = await listening(credit=2)
    client.send("credit", response_id=response_id, n=1)
    push(gateway, *"abcd")
    assert client.tokens() == [(0, "a"), (1, "b"), (2, "c")]


async def test_the_first_credit_of_an_answer_without_one_sets_the_pace() -> None:
    gateway, client, response_id = await listening()
    push(gateway, *"ab")
    client.send("credit", response_id=response_id, n=1)
    push(gateway, *"cd")
    assert client.heard() == "abc"
    assert gateway.stream(client).backpressure.paused_readers == 1


async def test_a_pause_holds_whatever_credit_there_is() -> None:
    gateway, client, response_id = await listening(credit=1)
    client.send("pause", response_id=response_id)
    push(gateway, *"abc")
    client.send("credit", response_id=response_id, n=5)
    assert client.tokens() == []
    client.send("resume", response_id=response_id)
    assert client.heard() == "abc"
    client.send("pause", response_id=response_id)
    gateway.call.finish()
    await settle()
    assert not client.transport.of_type("final")
    client.send("resume", response_id=response_id)
    assert client.frames[-1]["type"] == "final"


async def test_who_resumes_without_credit_waits_for_it() -> None:
    gateway, client, response_id = await listening(credit=0)
    client.send("pause", response_id=response_id)
    push(gateway, "a")
    client.send("resume", response_id=response_id)
    assert client.tokens() == []
    client.send("credit", response_id=response_id, n=1)
    assert client.heard() == "a"


async def test_paused_at_the_end_of_its_credit_it_hears_the_end_when_it_resumes() -> None:
    gateway, client, response_id = await listening(credit=1)
    push(gateway, "a")
    client.send("pause", response_id=response_id)
    gateway.call.finish()
    await settle()
    assert not client.transport.of_type("final")
    client.send("resume", response_id=response_id)
    assert client.frames[-1]["type"] == "final"


async def test_a_cancel_is_answered_without_credit() -> None:
    gateway, client, response_id = await listening(credit=1)
    push(gateway, *"abc")
    client.send("pause", response_id=response_id)
    client.send("cancel", response_id=response_id)
    await settle()
    assert client.heard() == "abc"
    assert (client.frames[-1]["type"], client.frames[-1]["finish_reason"]) == ("final", "cancelled")
    assert gateway.source.open_calls == 0


async def test_without_credit_the_model_is_held_once_it_is_the_window_ahead() -> None:
    gateway, client, response_id = await listening(credit=1)
    push(gateway, "x" * 30)
    assert not gateway.call.sink.paused
    push(gateway, "x" * 30, "x" * 30, "x" * 30)
    assert not gateway.call.sink.paused, "it is 90 bytes ahead"
    push(gateway, "x" * 30)
    assert gateway.call.sink.paused
    # A grant lets the model go on only as far as the reader has come.
    client.send("credit", response_id=response_id, n=1)
    assert not gateway.call.sink.paused
    push(gateway, "x" * 30)
    assert gateway.call.sink.paused
    client.send("credit", response_id=response_id, n=100)
    assert not gateway.call.sink.paused
    assert client.heard() == "x" * 180


async def test_another_reader_without_a_pace_keeps_the_model_going() -> None:
    gateway, client, response_id = await listening(credit=0)
    other = gateway.connect(V1)
    other.send("response.resume", response_id=response_id, after=-1)
    push(gateway, *["x" * 30] * 10)
    assert not gateway.call.sink.paused
    assert other.text() == "x" * 300
    assert client.tokens() == []


async def test_more_credit_than_may_be_is_refused_and_nothing_changes() -> None:
    gateway, client, response_id = await listening(
        Limits(batch_tokens=1, credit_window=10), credit=4
    )
    for n in (7, 11, 10**40):
        client.send("credit", response_id=response_id, n=n)
        refused = client.frames[-1]
        assert (refused["type"], refused["response_id"]) == ("error", response_id)
        assert (refused["error"]["code"], refused["error"]["param"]) == ("invalid_field", "n")
    client.send("start", id="m2", previous="m1", text="hi", credit=11)
    await settle()
    refused = client.frames[-1]
    assert (refused["type"], refused["id"]) == ("error", "m2")
    assert (refused["error"]["code"], refused["error"]["param"]) == ("invalid_field", "credit")
    assert len(gateway.source.calls) == 1, "it was not accepted"
    push(gateway, *"abcdef")
    assert client.heard() == "abcd"
    client.send("credit", response_id=response_id, n=10)
    assert client.heard() == "abcdef"


async def test_credit_for_nothing_that_is_read_here_is_an_error() -> None:
    gateway, _, response_id = await listening()
    other = Listener(gateway, REALTIME)
    for unknown in (response_id, "rsp_nobody"):
        other.send("credit", response_id=unknown, n=1)
        assert (other.frames[-1]["type"], other.last_code()) == ("error", "response_not_found")


async def test_a_reader_without_credit_for_too_long_is_let_go() -> None:
    gateway, client, response_id = await listening(credit=0)
    push(gateway, "a")
    client.connection.look_at_readers(gateway.clock.now + LIMITS.pause_seconds)
    assert client.transport.close is not None
    assert client.transport.close[0] == 4008
    assert client.transport.close[1] is not None
    assert f"resume {response_id} after -1" in client.transport.close[1]
    assert gateway.stream(client).backpressure.paused_readers == 0


async def test_a_socket_that_takes_nothing_costs_no_credit() -> None:
    gateway, client, response_id = await listening(credit=2)
    client.connection.block()
    push(gateway, *"abc")
    client.send("credit", response_id=response_id, n=1)
    assert client.tokens() == []
    client.connection.unblock()
    assert client.heard() == "abc"
    push(gateway, "d")
    assert client.heard() == "abc"


async def test_starting_again_on_the_same_connection_grants_nothing() -> None:
    gateway, client, _ = await listening(credit=1)
    push(gateway, *"abc")
    await client.start(credit=5)
    again = client.transport.of_type("started")[-1]
    assert (again["duplicate"], again["next_index"]) == (True, 1)
    assert client.heard() == "a"


@pytest.mark.parametrize("protocol", [V1, COMPACT])
async def test_the_other_subprotocols_grant_credit_too(protocol: str) -> None:
    gateway = Gateway(LIMITS)
    client = gateway.connect(protocol)
    client.send("chat.message", message_id="m1", payload={"text": "hi"}, credit=1)
    await settle()
    push(gateway, *"abc")
    assert client.text() == "a"
    client.send("response.credit", response_id=gateway.stream(client).response_id, n=1)
    assert client.text() == "ab"
    other = gateway.connect(protocol)
    other.send(
        "response.resume", response_id=gateway.stream(client).response_id, after=-1, credit=3
    )
    push(gateway, "d")
    assert other.text() == "abc"


@pytest.mark.usefixtures("tasks_end_with_the_test")
async def test_credit_is_kept_when_the_response_changes_hands() -> None:
    here, reader = await reading()
    reader.send("response.credit", response_id=here.response_id, n=2)
    await here.say("c")
    copy = await here.b.find(here.response_id)
    here.b.orchestrator.responses.drop(copy)
    copy.lose()
    await settle()
    await here.say("d", "e")
    assert reader.text() == "abcd"
    reader.send("response.credit", response_id=here.response_id, n=1)
    assert reader.text() == "abcde"


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["push", "turn", "block", "unblock", "leave", "pause", "resume"]),
        st.integers(1, 6),
    ),
    max_size=40,
)


class Listening:
    """A model that writes, and a listener that grants, pauses, stalls and comes back.

    Args:
        credit: what it asks with, each time.
    """

    def __init__(
        self, gateway: Gateway, client: Listener, response_id: str, credit: int | None
    ) -> None:
        self.gateway, self.client, self.response_id = gateway, client, response_id
        self.written = ""
        self._credit = self.may_have = credit

    @property
    def has(self) -> int:
        """How many entries it was given."""
        tokens = self.client.tokens()
        return tokens[-1][0] + 1 if tokens else 0

    def step(self, step: str | int) -> None:
        """The next thing that happens."""
        connection = self.client.connection
        if isinstance(step, int):
            self.may_have = (self.has if self.may_have is None else self.may_have) + step
            self.client.send("credit", response_id=self.response_id, n=step)
        elif step == "push":
            token = chr(ord("a") + len(self.written) % 26)
            self.written += token
            self.gateway.call.push(token)
        elif step == "turn":
            self.gateway.clock.turn(0.06)
        elif step == "leave":
            self._come_back()
        elif step in ("pause", "resume"):
            self.client.send(step, response_id=self.response_id)
        elif connection.session.blocked is (step == "unblock"):
            (connection.unblock if connection.session.blocked else connection.block)()

    def _come_back(self) -> None:
        self.client.connection.disconnected()
        held, has = self.client.transport.of_type("token"), self.has
        self.client = Listener(self.gateway, REALTIME)
        self.client.frames[:0] = held
        fields = {} if self._credit is None else {"credit": self._credit}
        self.may_have = None if self._credit is None else has + self._credit
        self.client.send("resume", response_id=self.response_id, after=has - 1, **fields)


@given(STEPS, st.one_of(st.none(), st.integers(0, 3)))
async def test_never_more_than_was_granted_and_nothing_is_lost(
    steps: list[str | int], credit: int | None
) -> None:
    fields: dict[str, Any] = {} if credit is None else {"credit": credit}
    gateway, client, response_id = await listening(**fields)
    stream, here = gateway.stream(client), Listening(gateway, client, response_id, credit)
    for step in steps:
        here.step(step)
        assert here.may_have is None or here.has <= here.may_have
    for step in ("unblock", "resume", 1000):
        here.step(step)
    gateway.call.finish()
    await settle()
    client = here.client
    assert client.heard() == here.written
    assert client.frames[-1]["type"] == "final"
    assert not client.transport.of_type("error")
    assert (stream.readers, stream.backpressure.paused_readers) == ({}, 0)
