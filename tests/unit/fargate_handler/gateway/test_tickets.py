"""A ticket opens one response, to be read, over every transport; and what may be kept of it."""

from __future__ import annotations

import pytest

from tests.unit.fargate_handler.gateway.changed_hands import ChangedHands
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.http_calls import EventStream, body_of
from tests.unit.settle import settle


async def test_a_client_with_a_ticket_reads_its_response_and_does_nothing_else() -> None:
    gateway = Gateway()
    owner = gateway.connect()
    await owner.say()
    await settle()
    stream = gateway.stream(owner)
    gateway.call.push("a")
    reader = gateway.connect(only_for=stream.response_id)
    assert [told["response_id"] for told in reader.frames[0]["responses"]] == [stream.response_id]
    ready = gateway.connect(only_for="rsp_2").frames[0]
    assert (ready["responses"], ready["last_message_id"]) == ([], None)
    reader.send("response.resume", response_id=stream.response_id, after=-1)
    assert reader.text() == "a"
    await reader.say("m2")
    assert reader.last_code() == "not_permitted"
    reader.send("response.cancel", response_id=stream.response_id)
    assert reader.last_code() == "not_permitted"
    reader.send("response.resume", response_id="rsp_2", after=-1)
    assert reader.last_code() == "token_invalid"
    await settle()
    assert not stream.log.closed
    gateway.call.push("b")
    gateway.clock.turn(0.1)
    assert reader.text() == "ab"


@pytest.mark.usefixtures("tasks_end_with_the_test")
class TestOverHttp:
    async def test_a_ticket_opens_events_polls_and_entries_of_its_response(self) -> None:
        here = await ChangedHands.begin()
        path = f"/chat/message/{here.response_id}"
        ticket = self._ticket(here, here.response_id)
        calls = here.calls(here.a)
        await here.say("c")
        here.a.source.calls[-1].finish()
        await here.a.clock.pass_time(0.1)
        events = EventStream(calls, f"{path}/events", ticket)
        await settle()
        assert [text for _, text in events.heard] == ["abc", "completed"]
        assert (await calls.json("GET", path, ticket))["full_text"] == "abc"
        entries = await calls.call("GET", f"{path}/entries/1/0-1", ticket)
        assert entries.status == 200
        assert [frame["delta"] for frame in body_of(entries)["frames"]] == ["ab"]
        assert entries.headers["Cache-Control"] == "public, max-age=25"
        assert entries.headers.getall("Vary") == ["Authorization"]
        cancelled = await calls.call("POST", f"{path}/cancel", ticket)
        assert (cancelled.status, body_of(cancelled)["error"]["code"]) == (403, "not_permitted")

    async def test_who_has_no_ticket_for_it_is_given_nothing_that_could_be_kept(self) -> None:
        here = await ChangedHands.begin()
        path = f"/chat/message/{here.response_id}/entries/1"
        calls = here.calls(here.a)
        for headers, range_, status in (
            (self._ticket(here, "rsp_2"), "0-1", 401),
            ({"Authorization": "Bearer x"}, "0-1", 401),
            ({}, "0-2", 404),
            ({}, "1-0", 400),
            ({}, "0-x", 400),
        ):
            answer = await calls.call("GET", f"{path}/{range_}", headers)
            assert (answer.status, answer.headers["Cache-Control"]) == (status, "no-store")

    async def test_entries_are_read_at_any_task_and_are_the_same(self) -> None:
        here = await ChangedHands.begin()
        path = f"/chat/message/{here.response_id}/entries/1/0-1"
        answers = [await here.calls(task).call("GET", path) for task in (here.a, here.b)]
        assert body_of(answers[0]) == body_of(answers[1])

    @pytest.mark.parametrize("opens", ["session", "ticket", "another response"])
    async def test_entry_by_entry_a_log_is_for_tasks_that_copy_it(self, opens: str) -> None:
        here = await ChangedHands.begin()
        calls = here.calls(here.a)
        headers = {
            "session": {},
            "ticket": self._ticket(here, here.response_id),
            "another response": calls.as_peer("rsp_2"),
        }[opens]
        answer = await calls.call(
            "GET", f"/chat/message/{here.response_id}/events?joined=0", headers
        )
        assert (answer.status, body_of(answer)["error"]["code"]) == (401, "token_invalid")

    async def test_what_opens_a_log_to_tasks_opens_nothing_else(self) -> None:
        here = await ChangedHands.begin()
        calls = here.calls(here.a)
        path, headers = f"/chat/message/{here.response_id}", calls.as_peer(here.response_id)
        for method, call in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
            answer = await calls.call(method, path + call, headers)
            assert (answer.status, body_of(answer)["error"]["code"]) == (401, "token_invalid")

    def _ticket(self, here: ChangedHands, response_id: str) -> dict[str, str]:
        context = here.gateway(here.a).context
        ticket, _ = context.access.tokens.issue(
            here.stream.channel, context.wall_time(), 60, only_for=response_id
        )
        return {"Authorization": f"Bearer {ticket}"}
