"""Presence over real connections: who counts as a reader, and who is told."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.stream_core.auth.rights import TO_READ
from tests.unit.fargate_handler.gateway.changed_hands import ChangedHands
from tests.unit.fargate_handler.gateway.client_harness import Client, Gateway
from tests.unit.fargate_handler.gateway.http_calls import EventStream
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL
from tests.unit.settle import settle


async def asked(gateway: Gateway) -> tuple[Client, str]:
    """A client whose message is being answered, and the response's id."""
    client = gateway.connect()
    await client.say()
    await settle()
    return client, gateway.stream(client).response_id


def told(client: Client) -> list[Any]:
    return [frame for frame in client.frames if frame["type"] == "presence"]


async def test_a_client_is_told_of_readers_that_come_and_go_until_it_asks_for_no_more() -> None:
    gateway = Gateway()
    client, response_id = await asked(gateway)
    client.send("presence.subscribe", response_id=response_id)
    await settle()
    (now,) = told(client)
    assert (now["response_id"], now["session_id"], now["count"]) == (response_id, "ses_1", 1)
    assert [(each["user"], each["transport"]) for each in now["readers"]] == [("", "websocket")]
    reader = gateway.connect(only_for=response_id)
    reader.send("response.resume", response_id=response_id, after=-1)
    gateway.clock.turn(0.1)
    reader.connection.disconnected()
    gateway.clock.turn(1.1)
    assert [frame["count"] for frame in told(client)] == [1, 2, 1]
    client.send("presence.unsubscribe", response_id=response_id)
    again = gateway.connect(only_for=response_id)
    again.send("response.resume", response_id=response_id, after=-1)
    gateway.clock.turn(2)
    assert len(told(client)) == 3


async def test_a_client_that_is_gone_is_told_no_more() -> None:
    gateway = Gateway()
    client, response_id = await asked(gateway)
    client.send("presence.subscribe", response_id=response_id)
    await settle()
    client.connection.disconnected()
    presence = gateway.stream(client).readers.presence
    assert presence is not None
    assert not presence._listeners


async def test_a_ticket_s_reader_is_told_of_its_response_and_of_no_other() -> None:
    gateway = Gateway()
    _, response_id = await asked(gateway)
    reader = gateway.connect(only_for=response_id)
    reader.send("presence.subscribe", response_id=response_id)
    await settle()
    assert [frame["count"] for frame in told(reader)] == [1]
    reader.send("presence.subscribe", response_id="rsp_2")
    assert reader.last_code() == "token_invalid"


async def test_what_is_no_response_of_the_session_has_no_presence() -> None:
    gateway = Gateway()
    client, _ = await asked(gateway)
    for kind in ("presence.subscribe", "presence.unsubscribe"):
        client.send(kind, response_id="rsp_other")
        await settle()
        assert client.last_code() == "response_not_found"


class Listener(Client):
    """A client of the session whose response changes hands."""

    channel = CHANNEL

    async def subscribe(self, here: ChangedHands) -> None:
        self.send("presence.subscribe", response_id=here.response_id)
        await settle()


@pytest.mark.usefixtures("tasks_end_with_the_test")
async def test_events_are_read_by_a_client_and_copied_by_a_task_which_is_no_reader() -> None:
    here = await ChangedHands.begin()
    here.stream.detach(here.reader)
    calls, path = here.calls(here.a), f"/chat/message/{here.response_id}/events"
    listener = Listener(here.gateway(here.a))
    await listener.subscribe(here)
    copying = EventStream(calls, f"{path}?joined=0", calls.as_peer(here.response_id))
    reading = EventStream(calls, path)
    await here.a.clock.pass_time(2)
    assert copying.heard
    assert reading.heard
    assert [frame["count"] for frame in told(listener)] == [0, 1]
    assert [each["transport"] for each in told(listener)[-1]["readers"]] == ["sse"]


async def test_when_another_owner_goes_on_presence_is_that_of_the_next_copy() -> None:
    here = await ChangedHands.begin()
    listener = Listener(here.gateway(here.b))
    await listener.subscribe(here)
    before = here.b.orchestrator.responses.get(here.response_id, CHANNEL)
    await here.lose_a()
    after = here.b.orchestrator.responses.get(here.response_id, CHANNEL)
    assert before is not after
    listener.send("response.resume", response_id=here.response_id, after=-1)
    await here.b.clock.pass_time(2)
    assert [frame["count"] for frame in told(listener)] == [0, 0, 1]


@pytest.mark.usefixtures("tasks_end_with_the_test")
class TestByEvents:
    async def test_who_reads_is_told_to_the_response_s_end(self) -> None:
        here = await ChangedHands.begin()
        here.stream.detach(here.reader)
        calls, path = here.calls(here.a), f"/chat/message/{here.response_id}"
        presence = EventStream(calls, f"{path}/presence")
        await settle()
        EventStream(calls, f"{path}/events")
        await here.a.clock.pass_time(1.5)
        here.a.source.calls[-1].finish()
        await here.a.clock.pass_time(1.5)
        assert [(kind, data["count"]) for kind, _, data in presence.events] == [
            ("presence", 0),
            ("presence", 1),
            ("presence", 0),
        ]
        assert presence.answering.done()
        assert not here.stream.readers.presence._listeners  # type: ignore[union-attr]
        assert (await calls.call("GET", f"{path}/presence")).status == 204

    async def test_a_ticket_opens_it_for_its_response_alone(self) -> None:
        here = await ChangedHands.begin()
        calls = here.calls(here.a)
        other = await calls.call(
            "GET", f"/chat/message/{here.response_id}/presence", calls._bearer("rsp_2")
        )
        assert other.status == 401
        own = EventStream(
            calls, f"/chat/message/{here.response_id}/presence", calls._bearer(here.response_id)
        )
        await settle()
        assert [data["count"] for _, _, data in own.events] == [0]
        own.answering.cancel()
        await settle()
        assert not here.stream.readers.presence._listeners  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("claims", "names"),
        [
            ({}, ["ann"]),
            ({"may": TO_READ}, ["ann"]),
            ({"may": TO_READ, "shared": True}, [""]),
            ({"may": TO_READ, "shared": True, "names": True}, ["ann"]),
            ({"only_for": "", "shared": True}, [""]),
            ({"only_for": ""}, [""]),
        ],
    )
    async def test_shares_and_tickets_see_names_only_where_the_sharer_says_so(
        self, claims: dict[str, Any], names: list[str]
    ) -> None:
        here = await ChangedHands.begin()
        here.stream.detach(here.reader)
        calls, path = here.calls(here.a), f"/chat/message/{here.response_id}"
        tokens, now = calls._context.access.tokens, calls._context.wall_time()
        own, _ = tokens.issue(CHANNEL, now, 60, user="ann")
        EventStream(calls, f"{path}/events", {"Authorization": f"Bearer {own}"})
        await settle()
        if "only_for" in claims:
            claims = claims | {"only_for": here.response_id}
        token, _ = tokens.issue(CHANNEL, now, 60, user="eve", **claims)
        told_to = EventStream(calls, f"{path}/presence", {"Authorization": f"Bearer {token}"})
        await settle()
        ((_, _, data),) = told_to.events
        assert ([each["user"] for each in data["readers"]], data["count"]) == (names, 1)

    async def test_it_ends_with_the_copy_and_the_client_comes_again(self) -> None:
        here = await ChangedHands.begin()
        path = f"/chat/message/{here.response_id}/presence"
        presence = EventStream(here.calls(here.b), path)
        await settle()
        await here.lose_a()
        assert presence.answering.done()
        again = EventStream(here.calls(here.b), path)
        await settle()
        assert [data["count"] for _, _, data in again.events] == [0]


@pytest.mark.usefixtures("tasks_end_with_the_test")
class TestByTasks:
    """What a task tells others of its readers."""

    async def test_a_copy_tells_its_own_readers_and_the_owner_all(self) -> None:
        here = await ChangedHands.begin()
        here.stream.detach(here.reader)
        path = f"/chat/message/{here.response_id}"
        EventStream(here.calls(here.a), f"{path}/events")
        EventStream(here.calls(here.b), f"{path}/events")
        await settle()
        heard = {}
        for task, of in ((here.a, "all"), (here.a, "here"), (here.b, "here")):
            calls = here.calls(task)
            headers = calls.as_peer(here.response_id)
            heard[task.address, of] = EventStream(calls, f"{path}/presence?readers={of}", headers)
        await here.a.clock.pass_time(2.5)
        here.a.orchestrator.sweep(here.a.clock.now)
        counts = {key: [data["count"] for *_, data in each.events] for key, each in heard.items()}
        assert counts == {
            (here.a.address, "all"): [1, 2],
            (here.a.address, "here"): [1],
            (here.b.address, "here"): [1],
        }
        assert all(each._writer.written.count(b": still here") >= 1 for each in heard.values())

    @pytest.mark.parametrize("of", ["all", "here"])
    async def test_no_client_is_told_it(self, of: str) -> None:
        here = await ChangedHands.begin()
        calls, path = here.calls(here.a), f"/chat/message/{here.response_id}/presence"
        for headers in ({}, calls._bearer(here.response_id)):
            answer = await calls.call("GET", f"{path}?readers={of}", headers)
            assert answer.status == 401

    async def test_who_only_copies_it_does_not_know_all(self) -> None:
        here = await ChangedHands.begin()
        path = f"/chat/message/{here.response_id}"
        copying = EventStream(here.calls(here.b), f"{path}/events")
        await settle()
        assert copying.heard
        calls = here.calls(here.b)
        headers = calls.as_peer(here.response_id)
        answer = await calls.call("GET", f"{path}/presence?readers=all", headers)
        assert answer.status == 503

    async def test_what_is_not_here_is_not_looked_for_elsewhere(self) -> None:
        here = await ChangedHands.begin()
        calls, path = here.calls(here.b), f"/chat/message/{here.response_id}/presence"
        answer = await calls.call("GET", f"{path}?readers=here", calls.as_peer(here.response_id))
        assert answer.status == 404
        assert len(here.b.replicas) == 0
