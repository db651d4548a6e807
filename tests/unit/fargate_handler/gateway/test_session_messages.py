"""The conversation by HTTP: its pages, answers that run, end and are forgotten, and its end."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError, UpstreamRejected
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.entries import Part, PartKind
from tests.unit.fargate_handler.gateway.changed_hands import ChangedHands
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, body_of
from tests.unit.fargate_handler.orchestrator.controlled_source import SourceCall
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.settle import settle

MESSAGES = f"/session/{CHANNEL.session}/messages"
SESSION = f"/session/{CHANNEL.session}"
TTL = 10.0

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")


class Tasks:
    """Two tasks with one store; `calls` are those of the second."""

    def __init__(self, a: Task, b: Task) -> None:
        self.a, self.b = a, b
        self.here = Calls(Gateway(task=a).context, CHANNEL)
        self.elsewhere = Calls(Gateway(task=b).context, CHANNEL)

    @classmethod
    async def begin(cls) -> Tasks:
        shared, limits = Shared(), Limits(response_ttl_seconds=TTL)
        return cls(
            await Task.join(shared, "a", limits=limits), await Task.join(shared, "b", limits=limits)
        )

    async def exchange(self, number: int, answer: str = "ok") -> None:
        await self.a.send(f"m{number}", f"m{number - 1}" if number else None, f"question {number}")
        await self.a.answer(answer)
        await self.a.clock.pass_time(0.5)

    async def forget_answers(self) -> None:
        """Nothing is kept of them but what the session remembers."""
        await self.a.clock.pass_time(TTL + 5.0, step=0.05)
        self.a.orchestrator.sweep(self.a.clock.now)


async def test_the_newest_page_comes_first_and_the_oldest_message_of_a_page() -> None:
    tasks = await Tasks.begin()
    for number in range(5):
        await tasks.exchange(number, f"answer {number}")
    for calls in (tasks.here, tasks.elsewhere):
        before: str | None = ""
        pages = []
        while before is not None:
            query = f"&before={before}" if before else ""
            page = await calls.json("GET", f"{MESSAGES}?limit=2{query}")
            pages.append([each["message_id"] for each in page["messages"]])
            before = page["next_before"]
        assert pages == [["m3", "m4"], ["m1", "m2"], ["m0"]]
    newest = (await tasks.elsewhere.json("GET", MESSAGES))["messages"][-1]
    assert newest.pop("response_id").startswith("rsp_")
    assert newest == {
        "message_id": "m4",
        "previous_message_id": "m3",
        "text": "question 4",
        "status": "completed",
        "answer": {"text": "answer 4", "parts": []},
        "finish_reason": "stop",
    }


async def test_an_answer_that_runs_is_there_so_far_and_can_be_resumed() -> None:
    changing = await ChangedHands.begin()
    for task in (changing.a, changing.b):
        page = await changing.calls(task).json("GET", MESSAGES)
        said = page["messages"][0]
        assert said["status"] == "streaming"
        assert said["answer"] == {"text": "ab", "parts": [], "last_index": 1, "epoch": 1}
    await changing.lose_a()
    await changing.say("c", task=changing.b)
    page = await changing.calls(changing.b).json("GET", MESSAGES)
    said = page["messages"][0]["answer"]
    assert (said["text"], said["epoch"]) == ("abc", 2)
    assert said["last_index"] == changing.b.workload.responses.of(CHANNEL)[0].log.next_index - 1


async def test_parts_are_told_with_their_place_in_the_text_while_it_is_kept_and_later() -> None:
    tasks = await Tasks.begin()
    stream = (await tasks.a.send("m0")).stream
    await settle()
    stream.push("Ödön: ")
    stream.push_part(Part(PartKind.CALL, call=1, id="call_1", name="search"))
    stream.push_part(Part(PartKind.DATA, '{"url": "/"}', name="source"))
    stream.push("found")
    tasks.a.source.calls[-1].finish()
    await tasks.a.clock.pass_time(0.5)
    said = {
        "text": "Ödön: found",
        "parts": [
            {"at": 6, "kind": "call", "call": 1, "id": "call_1", "name": "search"},
            {"at": 6, "kind": "data", "value": {"url": "/"}, "name": "source"},
        ],
    }
    for calls in (tasks.here, tasks.elsewhere):
        assert (await calls.json("GET", MESSAGES))["messages"][0]["answer"] == said
    await tasks.forget_answers()
    for calls in (tasks.here, tasks.elsewhere):
        assert (await calls.json("GET", MESSAGES))["messages"][0]["answer"] == said
    turns = (await _asked_next(tasks, "m0")).request.turns
    assert [turn.text for turn in turns] == ["hi", "Ödön: found", "next"]


async def test_a_message_that_waits_has_no_answer_yet() -> None:
    tasks = await Tasks.begin()
    await tasks.a.send("m0")
    await settle()
    (said,) = (await tasks.elsewhere.json("GET", MESSAGES))["messages"]
    assert said["status"] == "queued"
    assert said["answer"] == {"text": "", "parts": [], "last_index": -1, "epoch": 1}


async def test_what_an_answer_said_and_how_it_ended_outlives_it() -> None:
    tasks = await Tasks.begin()
    await tasks.exchange(0)
    for number, end in enumerate(("cancel", "fail"), start=1):
        stream = (await tasks.a.send(f"m{number}", f"m{number - 1}")).stream
        await settle()
        call = tasks.a.source.calls[-1]
        call.push("begun")
        if end == "cancel":
            await tasks.a.orchestrator.cancel(stream)
        else:
            call.fail(UpstreamRejected("no", code="upstream_failed"))
        await settle()
    await tasks.forget_answers()
    assert tasks.a.workload.responses.of(CHANNEL) == []
    messages = (await tasks.elsewhere.json("GET", MESSAGES))["messages"]
    assert [(each["status"], each["answer"]["text"]) for each in messages] == [
        ("completed", "ok"),
        ("cancelled", "begun"),
        ("error", "begun"),
    ]
    assert messages[2]["error"]["code"] == "upstream_failed"
    turns = (await _asked_next(tasks, "m2")).request.turns
    assert [turn.text for turn in turns] == ["question 0", "ok", "hi", "hi", "begun", "next"]


async def _asked_next(tasks: Tasks, last: str) -> SourceCall:
    await tasks.b.send("next", last, "next")
    await settle()
    return tasks.b.source.calls[-1]


async def test_each_version_is_read_and_gone_on_with_at_any_task() -> None:
    tasks = await Tasks.begin()
    for number in range(3):
        await tasks.exchange(number)
    for event in (
        IncomingMessage(CHANNEL, "m3", "m2", "again", replaces="m1"),
        IncomingMessage(CHANNEL, "m4", "m3", "older", parent_message_id="m2"),
        IncomingMessage(CHANNEL, "m5", "m4", "edited", replaces="m3"),
    ):
        await tasks.a.orchestrator.submit(event)
        await tasks.a.answer(f"to {event.message_id}")
        await tasks.a.clock.pass_time(0.5)
    told = [[turn.text for turn in call.request.turns] for call in tasks.a.source.calls[3:]]
    assert told == [
        ["question 0", "ok", "again"],
        ["question 0", "ok", "question 1", "ok", "question 2", "ok", "older"],
        ["question 0", "ok", "edited"],
    ]
    for query, ids in (
        ("", ["m0", "m5"]),
        ("?through=m5", ["m0", "m5"]),
        ("?through=m3", ["m0", "m3"]),
        ("?through=m1", ["m0", "m1", "m2", "m4"]),
        ("?through=m1&before=m2", ["m0", "m1"]),
    ):
        messages = (await tasks.elsewhere.json("GET", f"{MESSAGES}{query}"))["messages"]
        assert [each["message_id"] for each in messages] == ids
        versions = [each.get("versions") for each in messages]
        assert versions[:2] == [None, ["m1", "m3", "m5"]]
        assert versions[2:] == [None] * (len(ids) - 2)
    older = IncomingMessage(CHANNEL, "m6", "m5", "next", parent_message_id="m4")
    await tasks.b.orchestrator.submit(older)
    await settle()
    turns = [turn.text for turn in tasks.b.source.calls[-1].request.turns]
    assert turns[-3:] == ["older", "to m4", "next"]


async def test_a_refused_edit_leaves_the_newest_version_as_what_goes_on() -> None:
    tasks = await Tasks.begin()
    for number in range(2):
        await tasks.exchange(number)
    await tasks.a.orchestrator.submit(IncomingMessage(CHANNEL, "m2", "m1", "again", replaces="m0"))
    await tasks.a.answer("anew")
    for refused in (
        IncomingMessage(CHANNEL, "m3", "m1", "stale", replaces="m1"),
        IncomingMessage(CHANNEL, "m3", "m2", "no end", parent_message_id="m0"),
    ):
        with pytest.raises(EvenflowError):
            await tasks.a.orchestrator.submit(refused)
    await tasks.a.send("m3", "m2", "next")
    await settle()
    turns = [turn.text for turn in tasks.a.source.calls[-1].request.turns]
    assert turns == ["again", "anew", "next"]


async def test_what_was_replaced_is_not_in_the_newest_version() -> None:
    tasks = await Tasks.begin()
    for number in range(3):
        await tasks.exchange(number)
    again = IncomingMessage(CHANNEL, "m3", "m2", "again", replaces="m1")
    await tasks.a.orchestrator.submit(again)
    messages = (await tasks.elsewhere.json("GET", MESSAGES))["messages"]
    assert [(each["message_id"], each.get("replaces")) for each in messages] == [
        ("m0", None),
        ("m3", "m1"),
    ]
    older = (await tasks.elsewhere.json("GET", f"{MESSAGES}?before=m3"))["messages"]
    assert [each["message_id"] for each in older] == ["m0"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/session/another/messages", "session_not_found"),
        (f"{MESSAGES}?before=unknown", "message_not_found"),
        (f"{MESSAGES}?through=unknown", "message_not_found"),
        (f"{MESSAGES}?limit=0", "invalid_field"),
    ],
)
async def test_what_is_not_there_is_refused(path: str, code: str) -> None:
    tasks = await Tasks.begin()
    assert (await tasks.here.json("GET", path))["error"]["code"] == code


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", MESSAGES, 401), ("DELETE", SESSION, 403)]
)
async def test_without_the_session_s_token_nothing_is_told_and_nothing_ends(
    method: str, path: str, status: int
) -> None:
    tasks = await Tasks.begin()
    ticket = tasks.here._bearer("rsp_1")
    assert (await tasks.here.call(method, path, ticket)).status == status
    stranger = Calls(tasks.here._context, Channel("t", "demo", "stranger"))
    assert (await stranger.call(method, path)).status == 404


async def test_an_ended_session_is_gone_at_every_task() -> None:
    tasks = await Tasks.begin()
    await tasks.exchange(0)
    running = (await tasks.a.send("m1", "m0")).stream
    await settle()
    tasks.a.source.calls[-1].push("begun")
    ending = asyncio.create_task(tasks.elsewhere.call("DELETE", SESSION))
    await tasks.a.clock.pass_time(2.0)
    assert (await ending).status == 204
    assert running.state == "cancelled"
    assert tasks.a.source.open_calls == 0
    assert await tasks.a.shared.ledger() == []
    assert await tasks.a.shared.memory.head(running.response_id, tasks.a.clock.now) is None
    for task, calls in ((tasks.a, tasks.here), (tasks.b, tasks.elsewhere)):
        refused = await calls.call("GET", MESSAGES)
        assert (refused.status, body_of(refused)["error"]["code"]) == (410, "session_ended")
        for previous in ("m1", None):
            assert (await task.refusal("m2", previous)).code == "session_ended"
        assert (await calls.call("DELETE", SESSION)).status == 204
    assert tasks.b.workload.responses.of(CHANNEL) == []


async def test_the_connections_of_an_ended_session_are_closed() -> None:
    gateway = Gateway()
    client = gateway.connect()
    calls = Calls(gateway.context, client.channel)
    await client.say()
    await settle()
    ending = asyncio.create_task(calls.call("DELETE", f"/session/{client.channel.session}"))
    await gateway.clock.pass_time(1.0)
    assert (await ending).status == 204
    assert client.frames[-1]["type"] == "chat.response.completed"
    assert client.frames[-1]["finish_reason"] == "cancelled"
    assert client.transport.close == (1000, "the session was ended")
