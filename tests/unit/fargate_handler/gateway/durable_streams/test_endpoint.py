"""`GET /streams/{response_id}`: what its answers say, and how long they may be kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest
from aiohttp import web

from evenflow.fargate_handler.filters.content_filters import ContentFilters
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.filtering.port import Filtering
from evenflow.stream_core.tenants.registry import Tenants
from tests.unit.fargate_handler.gateway.changed_hands import ChangedHands
from tests.unit.fargate_handler.gateway.http_calls import Calls, RecordingWriter, body_of
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")

_AFTER_B = "000000001_000000000000002"
_END = "000000001_000000000000002_end"


def told(answer: web.StreamResponse) -> list[str]:
    """The text of each message, or what it is."""
    frames: Any = body_of(answer)
    return texts(frames)


def texts(frames: list[dict[str, Any]]) -> list[str]:
    return [frame.get("delta") or frame["type"].rpartition(".")[2] for frame in frames]


def said(answer: web.StreamResponse) -> dict[str, str]:
    """What its headers say of the stream."""
    return {
        name.removeprefix("Stream-"): value
        for name, value in answer.headers.items()
        if name.startswith("Stream-") and name != "Stream-Cursor"
    }


class Reader:
    """Reads one response."""

    def __init__(self, here: ChangedHands, task: Task | None = None) -> None:
        self.calls: Calls = here.calls(task or here.a)
        self._path = f"/streams/{here.response_id}"

    async def get(
        self, query: str = "", headers: dict[str, str] | None = None, method: str = "GET"
    ) -> web.StreamResponse:
        return await self.calls.call(method, self._path + query, headers)


async def finish(here: ChangedHands) -> None:
    here.a.source.calls[-1].finish()
    await here.a.clock.pass_time(0.5)


class Unread:
    """A connection whose client reads nothing."""

    unsent_bytes = 1_000_000_000

    def close_for_memory(self) -> None:
        raise NotImplementedError


async def test_a_chunk_for_which_there_is_no_room_is_refused() -> None:
    here = await ChangedHands.begin()
    here.a.source.calls[-1].push("x" * 100_000)
    await here.a.clock.pass_time(0.5)
    reader = Reader(here)
    assert (await reader.get()).status == 200
    reader.calls._context.registry.blocked.add(Unread())
    answer = await reader.get()
    assert (answer.status, body_of(answer)["error"]["code"]) == (503, "node_memory")
    assert (await reader.get("?offset=now")).status == 200


async def test_a_read_of_an_open_response_says_where_to_read_on() -> None:
    reader = Reader(await ChangedHands.begin())
    answer = await reader.get()
    assert told(answer) == ["a", "b"]
    assert said(answer) == {"Next-Offset": _AFTER_B, "Up-To-Date": "true"}
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.content_type == "application/json"
    assert told(await reader.get("?offset=-1")) == ["a", "b"]
    assert told(await reader.get("?offset=000000001_000000000000001")) == ["b"]


async def test_what_has_ended_is_kept_for_a_heartbeat_and_says_that_it_is_closed() -> None:
    here = await ChangedHands.begin()
    await finish(here)
    for offset, messages in (("-1", ["a", "b", "completed"]), (_END, [])):
        answer = await Reader(here).get(f"?offset={offset}")
        assert told(answer) == messages
        assert said(answer) == {"Next-Offset": _END, "Up-To-Date": "true", "Closed": "true"}
        assert answer.headers["Cache-Control"] == "public, max-age=25"
        assert answer.headers["Vary"] == "Authorization"
        assert "Set-Cookie" not in answer.headers


async def test_who_has_the_same_already_is_told_so() -> None:
    here = await ChangedHands.begin()
    reader = Reader(here)
    tag = (await reader.get()).headers["ETag"]
    again = await reader.get(headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status, said(again)["Next-Offset"]) == (304, _AFTER_B)
    await finish(here)
    assert (await reader.get(headers={"If-None-Match": tag})).status == 200


async def test_now_is_behind_everything_and_never_kept() -> None:
    here = await ChangedHands.begin()
    answer = await Reader(here).get("?offset=now")
    assert told(answer) == []
    assert said(answer) == {"Next-Offset": _AFTER_B, "Up-To-Date": "true"}
    assert answer.headers["Cache-Control"] == "no-store"
    assert "ETag" not in answer.headers
    await finish(here)
    assert said(await Reader(here).get("?offset=now"))["Closed"] == "true"


async def test_head_tells_the_tail() -> None:
    here = await ChangedHands.begin()
    answer = await Reader(here).get(method="HEAD")
    assert said(answer) == {"Next-Offset": _AFTER_B}
    assert answer.headers["Cache-Control"] == "no-store"
    await finish(here)
    closed = await Reader(here).get(method="HEAD")
    assert said(closed) == {"Next-Offset": _END, "Closed": "true"}


@pytest.mark.parametrize(
    "query",
    [
        *("?offset=", "?offset=7", "?offset=a,b", "?offset=-1&offset=-1"),
        *("?live=long-poll", "?live=sse", "?offset=-1&live=yes"),
        "?offset=000000001_000000000000700",
    ],
)
async def test_what_cannot_be_read_is_refused(query: str) -> None:
    answer = await Reader(await ChangedHands.begin()).get(query)
    assert (answer.status, body_of(answer)["error"]["code"]) == (400, "invalid_field")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_another_sessions_response_is_not_there() -> None:
    here = await ChangedHands.begin()
    calls = here.calls(here.a)
    assert (await calls.call("GET", "/streams/rsp_of_nobody")).status == 404
    assert (
        await calls.call("GET", f"/streams/{here.response_id}", {"Authorization": "Bearer no"})
    ).status == 401


# -- long poll -------------------------------------------------------------------------------------


async def poll(reader: Reader, offset: str, cursor: str = "") -> asyncio.Task[Any]:
    query = f"?offset={offset}&live=long-poll{cursor and f'&cursor={cursor}'}"
    polling = asyncio.create_task(reader.get(query))
    await settle()
    return polling


async def test_a_long_poll_waits_for_what_is_new() -> None:
    here = await ChangedHands.begin()
    polling = await poll(Reader(here), _AFTER_B)
    assert not polling.done()
    await here.say("c")
    assert told(await polling) == ["c"]


async def test_a_long_poll_of_what_is_there_does_not_wait() -> None:
    here = await ChangedHands.begin()
    answer = await (await poll(Reader(here), "-1", cursor="5"))
    assert told(answer) == ["a", "b"]
    assert int(answer.headers["Stream-Cursor"]) > 5


async def test_a_long_poll_without_news_says_where_it_is() -> None:
    here = await ChangedHands.begin(limits=Limits(poll_timeout_max_ms=100))
    polling = await poll(Reader(here, here.b), "now")
    await here.a.clock.pass_time(0.2)
    answer = await polling
    assert (answer.status, answer.headers["Cache-Control"]) == (204, "no-store")
    assert said(answer) == {"Next-Offset": _AFTER_B, "Up-To-Date": "true"}
    assert answer.headers["Stream-Cursor"].isdecimal()


async def test_a_long_poll_ends_with_the_response() -> None:
    here = await ChangedHands.begin()
    polling = await poll(Reader(here), "now")
    await finish(here)
    last = await polling
    assert (told(last), said(last)["Closed"]) == (["completed"], "true")
    after = await (await poll(Reader(here), _END))
    assert (after.status, said(after)["Closed"]) == (204, "true")
    assert "Stream-Cursor" not in after.headers


async def test_a_long_poll_whose_copy_ends_comes_again() -> None:
    here = await ChangedHands.begin()
    polling = await poll(Reader(here), _AFTER_B)
    here.a.orchestrator.lose(here.stream)
    answer = await polling
    assert (answer.status, said(answer)["Next-Offset"]) == (204, _AFTER_B)


# -- live ------------------------------------------------------------------------------------------


async def live(here: ChangedHands, offset: str, task: Task) -> tuple[RecordingWriter, Any]:
    writer = RecordingWriter()
    path = f"/streams/{here.response_id}?offset={offset}&live=sse"
    answering = asyncio.create_task(here.calls(task).call("GET", path, writer=writer))
    await settle()
    return writer, answering


def heard(writer: RecordingWriter) -> list[str]:
    """Of each message its text or what it is, of each control event the offset."""
    found: list[str] = []
    for line in writer.written.decode().splitlines():
        if line.startswith("data:"):
            data = orjson.loads(line[5:])
            found += [data["streamNextOffset"]] if isinstance(data, dict) else texts(data)
    return found


async def test_a_live_read_goes_on_to_the_end() -> None:
    here = await ChangedHands.begin()
    writer, answering = await live(here, "now", here.a)
    assert heard(writer) == [_AFTER_B]
    await here.say("c")
    await finish(here)
    answer = await answering
    after_c = "000000001_000000000000003"
    assert heard(writer) == [_AFTER_B, "c", after_c, "completed", f"{after_c}_end"]
    assert answer.headers["Cache-Control"].startswith("no-cache")
    assert answer.headers["Content-Type"] == "text/event-stream"


async def test_who_has_everything_is_told_only_that() -> None:
    here = await ChangedHands.begin()
    await finish(here)
    answer = await Reader(here).get(f"?offset={_END}&live=sse")
    assert isinstance(answer, web.Response)
    assert answer.body == (
        b'event: control\ndata:{"streamNextOffset":"%b","streamClosed":true,"upToDate":true}\n\n'
        % _END.encode()
    )


@pytest.mark.parametrize("cut", [False, True])
async def test_what_was_lost_with_its_owner_is_replaced(cut: bool) -> None:
    """In the stream that is open, and for who comes back with an offset of the lost one."""
    here = await ChangedHands.begin()
    writer, answering = await live(here, "-1", here.b)
    await here.lose_a(heard=True)
    await here.say("c", task=here.b)
    here.b.source.calls[-1].finish()
    await here.b.clock.pass_time(0.5)
    anew = ["restarted", "a", "b", "restarted", "c", "completed"]
    if cut:
        answer = await Reader(here, here.b).get("?offset=000000001_000000000000003")
        assert told(answer) == anew
        assert said(answer)["Next-Offset"] == "000000002_000000000000004_end"
    else:
        await answering
        offsets = heard(writer)[1::2]
        assert heard(writer)[::2] == ["a", "b", "x", *anew]
        assert offsets == sorted(offsets)


class Retracting(ContentFilters):
    """Filters that show text before it is cleared."""

    def __init__(self) -> None:
        super().__init__(Filtering.RETRACT, Tenants(), Metrics(), lambda: 0.0)


async def test_what_may_be_taken_back_is_kept_by_no_cache_and_its_tag_says_that_it_was() -> None:
    here = await ChangedHands.begin()
    context = replace(here.gateway(here.a).context, filters=Retracting())
    calls = Calls(context, here.stream.channel)
    paths = (f"/streams/{here.response_id}", f"/chat/message/{here.response_id}/entries/1/0-1")
    before = [await calls.call("GET", path) for path in paths]
    assert [it.headers["Cache-Control"] for it in before] == ["no-store", "no-store"]
    assert told(before[0]) == ["a", "b"]
    here.stream.show_unfiltered()
    here.stream.restart()
    await here.say("c")
    await finish(here)
    after = [await calls.call("GET", path) for path in paths]
    assert [it.headers["Cache-Control"] for it in after] == ["public, max-age=25"] * 2
    assert told(after[0]) == ["delta", "delta", "restarted", "c", "completed"]
    assert [frame["delta"] for frame in body_of(after[1])["frames"]] == [""]
    tags = {it.headers["ETag"].rpartition(":")[2] for it in (before[0], after[0])}
    assert len(tags) == 2
