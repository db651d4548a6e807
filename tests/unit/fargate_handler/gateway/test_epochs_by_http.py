"""Server-sent events and long-polls of a response that changes hands."""

from __future__ import annotations

import pytest

from tests.unit.fargate_handler.gateway.changed_hands import ChangedHands
from tests.unit.fargate_handler.gateway.http_calls import EventStream, body_of
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")

REPLAYED = [
    ("", "restarted"),
    ("0.2", "a"),
    ("1.2", "b"),
    ("2.2", "restarted"),
    ("3.2", "c"),
    ("3.2.end", "completed"),
]


async def completed(here: ChangedHands) -> str:
    """Its path, now that the second owner has finished it."""
    await here.lose_a()
    await here.say("c", task=here.b)
    here.b.source.calls[-1].finish()
    await here.b.clock.pass_time(0.5)
    return f"/chat/message/{here.response_id}"


async def heard(here: ChangedHands, path: str, last: str | None = None) -> list[tuple[str, str]]:
    """What a task hears that copies the response."""
    calls = here.calls(here.b)
    resuming = {"Last-Event-ID": last} if last is not None else {}
    stream = EventStream(calls, path, calls.as_peer(here.response_id) | resuming)
    await settle()
    assert stream.answering.done()
    return stream.heard


# -- server-sent events ----------------------------------------------------------------------------


async def test_an_id_says_the_epoch_once_there_is_a_second_one() -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    stream = await heard(here, f"{path}/events?joined=0")
    assert stream == [("0", "a"), ("1", "b"), *REPLAYED[3:]]


async def test_whether_the_session_was_ended_is_read_by_the_node_with_the_reader_alone() -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    reads = here.b.sessions.network.calls
    await here.b.clock.pass_time(6.0)  # what was read before is old
    reads.clear()
    await heard(here, f"{path}/events?joined=0")
    assert reads["find_ended"] == 0
    client = EventStream(here.calls(here.b), f"{path}/events")
    await settle()
    assert client.answering.done()
    assert reads["find_ended"] == 1


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ("0", "b"),
        ("1", "restarted"),
        ("1.2", "restarted"),
        ("2.2", "c"),
        ("3.2", "completed"),
        ("-1", "a"),
    ],
)
async def test_who_has_part_of_the_response_goes_on_exactly(last: str, first: str) -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    stream = await heard(here, f"{path}/events?joined=0", last)
    assert stream[0][1] == first
    assert stream == ([("0", "a"), ("1", "b"), *REPLAYED[3:]])[-len(stream) :]


@pytest.mark.parametrize("last", ["2", "3", "3.end", "700"])
async def test_who_has_what_was_lost_with_its_owner_hears_everything_again(last: str) -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    assert await heard(here, f"{path}/events?joined=0", last) == REPLAYED
    assert (
        await heard(here, f"{path}/events?joined=0&epoch=1&after={last.removesuffix('.end')}")
        == REPLAYED
    )


async def test_what_everything_replaces_is_told_without_a_place_in_the_log() -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    stream = EventStream(here.calls(here.b), f"{path}/events", {"Last-Event-ID": "2"})
    await settle()
    kind, event_id, data = stream.events[0]
    assert (kind, event_id) == ("chat.response.restarted", ""), (
        "an EventSource then resumes from the beginning"
    )
    assert (data["index"], data["from_index"], data["attempt"], data["epoch"]) == (-1, -1, 2, 2)
    assert stream.heard[1:] == [
        ("1.2", "ab"),
        ("2.2", "restarted"),
        ("3.2", "c"),
        ("3.2.end", "completed"),
    ]


async def test_who_has_everything_need_not_come_again() -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    answer = await here.calls(here.b).call("GET", f"{path}/events", {"Last-Event-ID": "3.2.end"})
    assert answer.status == 204


@pytest.mark.parametrize("last", ["x", "1.", "1.2.3", ".2", "1.2.end.end", "-2", "1.-1", "٣"])
async def test_what_is_no_id_is_refused(last: str) -> None:
    here = await ChangedHands.begin()
    answer = await here.calls(here.b).call(
        "GET",
        f"/chat/message/{here.response_id}/events",
        {"Last-Event-ID": last.encode().decode("latin-1")},
    )
    assert (answer.status, body_of(answer)["error"]["code"]) == (400, "invalid_field")


@pytest.mark.parametrize(
    ("on", "via"), [("a", "owner"), ("b", "peer"), ("b in the store", "store")]
)
async def test_an_answer_says_where_it_comes_from_and_how_much_there_was(on: str, via: str) -> None:
    here = await ChangedHands.begin()
    if on == "b in the store":
        here.a.shared.peers.cut(here.a.address)
    calls = here.calls(here.a if on == "a" else here.b)
    stream = EventStream(calls, f"/chat/message/{here.response_id}/events")
    await settle()
    poll = await calls.call("GET", f"/chat/message/{here.response_id}?timeout_ms=0")
    assert poll.headers["Evenflow-Via"] == via
    await here.a.answer("c")
    await here.a.clock.pass_time(0.5)
    answer = stream.answering.result()
    assert (answer.headers["Evenflow-Via"], answer.headers["Evenflow-Next-Index"]) == (via, "2")
    assert [text for _, text in stream.heard] == ["ab", "c", "completed"]


@pytest.mark.parametrize("heard", [False, True])
async def test_a_stream_goes_on_in_the_next_copy(heard: bool) -> None:
    """Exactly, or from the beginning where its client was given what never got on record."""
    here = await ChangedHands.begin()
    stream = EventStream(here.calls(here.b), f"/chat/message/{here.response_id}/events")
    await settle()
    await here.lose_a(heard=heard)
    await here.say("c", task=here.b)
    here.b.source.calls[-1].finish()
    await here.b.clock.pass_time(0.5)
    assert stream.answering.done()
    again = [("2", "x"), ("", "restarted"), ("1.2", "ab")] if heard else []
    assert stream.heard == [("1", "ab"), *again, *REPLAYED[3:]]


async def test_a_task_that_follows_is_not_led_on_to_another_copy() -> None:
    """It must find out for itself who the owner is."""
    here = await ChangedHands.begin()
    calls = here.calls(here.a)
    path = f"/chat/message/{here.response_id}/events?joined=0"
    stream = EventStream(calls, path, calls.as_peer(here.response_id))
    await settle()
    here.a.orchestrator.lose(here.stream)
    await settle()
    assert stream.answering.done()
    assert stream.heard == [("0", "a"), ("1", "b")]


async def test_a_stream_whose_response_is_not_found_again_ends_and_is_no_error_in_its_middle() -> (
    None
):
    here = await ChangedHands.begin()
    stream = EventStream(here.calls(here.b), f"/chat/message/{here.response_id}/events")
    await settle()
    here.b.responses.network.cut = True
    copy = await here.b.find(here.response_id)
    here.b.orchestrator.responses.drop(copy)
    copy.lose()
    await settle()
    assert stream.answering.done()
    assert stream.answering.result().status == 200
    assert stream.heard == [("1", "ab")]


# -- long-polls ------------------------------------------------------------------------------------


async def test_a_poll_says_whose_entries_it_brings() -> None:
    here = await ChangedHands.begin()
    calls = here.calls(here.a)
    body = await calls.json("GET", f"/chat/message/{here.response_id}?timeout_ms=0")
    assert (body["new_text"], body["metadata"]["epoch"], body["metadata"]["next_index"]) == (
        "ab",
        1,
        2,
    )
    path = await completed(here)
    body = await here.calls(here.b).json("GET", f"{path}?from_index=2&epoch=1")
    assert (body["new_text"], body["metadata"]["epoch"], body["metadata"]["next_index"]) == (
        "c",
        2,
        4,
    )
    assert body["full_text"] == "abc"
    assert body["metadata"]["restarted"] is None, "the second owner continued"


@pytest.mark.parametrize(
    "query", ["from_index=3&epoch=1", "from_index=3", "from_index=4&epoch=1", "from_index=90"]
)
async def test_a_poll_behind_what_was_lost_begins_again(query: str) -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    body = await here.calls(here.b).json("GET", f"{path}?{query}")
    assert body["new_text"] == "abc"
    assert body["metadata"]["restarted"] == {"from_index": -1, "attempt": 2}
    assert (body["metadata"]["epoch"], body["metadata"]["next_index"]) == (2, 4)


async def test_a_poll_that_knows_the_second_owner_goes_on_exactly() -> None:
    here = await ChangedHands.begin()
    path = await completed(here)
    body = await here.calls(here.b).json("GET", f"{path}?from_index=3&epoch=2")
    assert (body["new_text"], body["metadata"]["restarted"]) == ("c", None)
    body = await here.calls(here.b).json("GET", f"{path}?from_index=4&epoch=2")
    assert (body["new_text"], body["status"]) == ("", "completed")


async def test_a_poll_beyond_the_end_is_refused_by_the_name_of_its_parameter() -> None:
    here = await ChangedHands.begin()
    answer = await here.calls(here.a).call("GET", f"/chat/message/{here.response_id}?from_index=9")
    error = body_of(answer)["error"]
    assert (answer.status, error["param"]) == (400, "from_index")
    assert "8" not in error["message"], "that is not what was asked for"


@pytest.mark.parametrize("epoch", ["0", "-1", "x", ""])
async def test_an_epoch_is_a_whole_number_from_one_on(epoch: str) -> None:
    here = await ChangedHands.begin()
    for path in ("", "/events"):
        answer = await here.calls(here.a).call(
            "GET", f"/chat/message/{here.response_id}{path}?epoch={epoch}"
        )
        assert answer.status == 400


async def test_a_poll_whose_copy_is_lost_answers_with_what_there_is() -> None:
    here = await ChangedHands.begin()
    stream = EventStream(
        here.calls(here.b), f"/chat/message/{here.response_id}?from_index=2&timeout_ms=30000"
    )
    here.a.cut_off()
    while not here.b.source.calls:
        assert not stream.answering.done()
        await here.b.clock.pass_time(0.01)
    body = body_of(stream.answering.result())
    assert (body["new_text"], body["status"], body["metadata"]["next_index"]) == (
        "",
        "streaming",
        2,
    )


async def test_a_poll_waits_no_longer_than_it_said_for_a_copy_that_is_behind() -> None:
    here = await ChangedHands.begin()
    here.a.shared.peers.cut(here.a.address)
    poll = EventStream(
        here.calls(here.b), f"/chat/message/{here.response_id}?from_index=9&timeout_ms=2000"
    )
    await here.b.clock.pass_time(1.5)
    assert not poll.answering.done()
    await here.b.clock.pass_time(1.0)
    answer = poll.answering.result()
    assert (answer.status, body_of(answer)["error"]["code"]) == (503, "response_elsewhere")
