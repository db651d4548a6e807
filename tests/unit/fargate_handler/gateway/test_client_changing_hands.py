"""What a WebSocket client hears of a response that another task generates, or goes on with."""

from __future__ import annotations

import pytest

from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT
from tests.unit.fargate_handler.gateway.browser import Browser
from tests.unit.fargate_handler.gateway.changed_hands import ChangedHands
from tests.unit.fargate_handler.gateway.client_harness import Client
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")


class Reader(Client):
    """A client whose session the response belongs to, with a connection to task b."""

    channel = CHANNEL

    def resume(self, here: ChangedHands, after: int = -1, **epoch: int) -> None:
        self.send("response.resume", response_id=here.response_id, after=after, **epoch)

    def heard(self) -> list[object]:
        """The indexes of deltas, and the other frames' last words."""
        heard: list[object] = []
        for frame in self.frames:
            if isinstance(frame, list):
                heard.append(frame[1])
            elif frame["type"] == "chat.response.delta":
                heard.append(frame["index"])
            elif frame["type"] == "chat.response.restarted":
                heard.append(("restarted", frame["index"]))
            elif frame["type"] == "chat.response.start":
                heard.append(("start", frame["next_index"]))
            elif frame["type"] != "session.ready":
                heard.append(frame["type"].rpartition(".")[2])
        return heard


async def reading(*, continues: bool = True) -> tuple[ChangedHands, Reader]:
    """Task a answers, and somebody reads it at b."""
    here = await ChangedHands.begin(continues=continues)
    reader = Reader(here.gateway(here.b))
    reader.resume(here)
    await settle()
    return here, reader


# -- a response of another task --------------------------------------------------------------------


async def test_a_response_of_another_task_is_resumed_and_read_to_its_end() -> None:
    here, reader = await reading()
    start = reader.transport.of_type("chat.response.start")[0]
    assert (start["next_index"], start["duplicate"], start["via"], start["message_id"]) == (
        0,
        True,
        "peer",
        "m1",
    )
    await here.a.answer("c")
    await here.b.clock.pass_time(0.5)
    assert reader.text() == "abc"
    assert reader.heard() == [("start", 0), 1, 2, "completed"]


async def test_a_message_that_another_task_answers_is_read_here_when_it_is_sent_again() -> None:
    here = await ChangedHands.begin()
    reader = Reader(here.gateway(here.b))
    reader.send("chat.message", message_id="m1", previous_message_id=None, payload={"text": "hi"})
    await settle()
    start = reader.transport.of_type("chat.response.start")[0]
    assert (start["response_id"], start["duplicate"], start["via"]) == (
        here.response_id,
        True,
        "peer",
    )
    assert reader.text() == "ab"
    assert here.b.source.calls == []


async def test_a_cancel_reaches_the_task_that_generates_it() -> None:
    here, reader = await reading()
    reader.send("response.cancel", response_id=here.response_id)
    await here.b.clock.pass_time(0.2)
    assert here.a.source.open_calls == 0
    assert reader.frames[-1]["finish_reason"] == "cancelled"


async def test_a_cancel_that_cannot_be_told_is_refused_by_name_and_the_reader_stays() -> None:
    here, reader = await reading()
    here.a.cut_off()
    reader.send("response.cancel", response_id=here.response_id)
    await settle()
    assert reader.last_code() == "owner_unreachable"
    assert reader.frames[-1]["response_id"] == here.response_id
    assert reader.connection.reading


@pytest.mark.parametrize(("kind", "fields"), [("pause", {}), ("credit", {"n": 1})])
async def test_a_refused_cancel_leaves_the_pace_as_it_was(
    kind: str, fields: dict[str, int]
) -> None:
    here, reader = await reading()
    reader.send(f"response.{kind}", response_id=here.response_id, **fields)
    await here.say("c", "d")
    before = reader.text()
    assert before != "abcd"
    here.a.shared.peers.cut(here.a.address)
    reader.send("response.cancel", response_id=here.response_id)
    await settle()
    assert reader.last_code() == "owner_unreachable"
    assert reader.text() == before


async def test_while_the_store_cannot_tell_a_resume_is_refused_by_name() -> None:
    here = await ChangedHands.begin()
    here.b.cut_off()
    reader = Reader(here.gateway(here.b))
    reader.resume(here)
    await settle()
    assert reader.last_code() == "store_unavailable"
    assert reader.frames[-1]["response_id"] == here.response_id
    assert reader.transport.close is None


async def test_a_client_that_left_while_its_response_was_looked_for_reads_nothing() -> None:
    here = await ChangedHands.begin()
    here.b.responses.network.hold("head")
    reader = Reader(here.gateway(here.b))
    reader.resume(here)
    await settle()
    reader.connection.close(1000, "gone")
    frames = len(reader.frames)
    here.b.responses.network.release()
    await settle()
    assert len(reader.frames) == frames
    assert not (await here.b.find(here.response_id)).readers


# -- epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "epoch", "expected"),
    [
        (1, {"epoch": 1}, [("start", 2), ("restarted", 2), 3]),
        (1, {}, [("start", 2), ("restarted", 2), 3]),
        (2, {"epoch": 1}, [("start", 0), ("restarted", -1), 1, ("restarted", 2), 3]),
        (3, {}, [("start", 0), ("restarted", -1), 1, ("restarted", 2), 3]),
        (70, {"epoch": 1}, [("start", 0), ("restarted", -1), 1, ("restarted", 2), 3]),
        (2, {"epoch": 2}, [("start", 3), 3]),
        (3, {"epoch": 2}, [("start", 4)]),
    ],
)
async def test_who_comes_back_goes_on_exactly_or_from_the_beginning(
    after: int, epoch: dict[str, int], expected: list[object]
) -> None:
    here = await ChangedHands.begin()
    await here.lose_a()
    await here.say("c", task=here.b)
    reader = Reader(here.gateway(here.b))
    reader.resume(here, after, **epoch)
    await settle()
    assert reader.heard() == expected
    for frame in reader.transport.of_type("chat.response.restarted"):
        assert (frame["epoch"], frame["attempt"]) == (2, 2)
        assert frame["from_index"] == (-1 if frame["index"] == -1 else 1)
    start = reader.transport.of_type("chat.response.start")[0]
    assert start.get("epoch", 1) == (2 if epoch.get("epoch") == 2 else 1), (
        "whose entries it begins behind"
    )


@pytest.mark.parametrize("epoch", [0, -1, "2", 1.5])
async def test_an_epoch_is_a_whole_number_from_one_on(epoch: object) -> None:
    here, reader = await reading()
    reader.send("response.resume", response_id=here.response_id, after=0, epoch=epoch)
    assert reader.last_code() == "invalid_field"


# -- found again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("heard", [False, True])
async def test_a_reader_moves_on_to_the_copy_that_goes_on(heard: bool) -> None:
    here, reader = await reading()
    await here.lose_a(heard=heard)
    await here.b.answer("c")
    await here.b.clock.pass_time(0.5)
    again = [2, ("start", 0), ("restarted", -1), 1] if heard else [("start", 2)]
    assert reader.heard() == [("start", 0), 1, *again, ("restarted", 2), 3, "completed"]
    assert reader.transport.close is None
    assert not reader.connection.reading


async def test_a_reader_at_the_task_that_was_lost_finds_the_one_that_goes_on() -> None:
    here = await ChangedHands.begin()
    browser = Browser(CHANNEL, here.response_id)
    browser.connect(here.gateway(here.a))
    await here.lose_a()
    await here.say("c", task=here.b)
    browser.look()
    assert browser.text == "abx"
    here.a.reconnect()
    await here.b.clock.pass_time(4.0)
    await here.b.answer("d")
    await here.b.clock.pass_time(3.0)
    browser.look()
    assert browser.text == "abcd"
    assert browser.ended is not None
    assert browser.connected


async def test_in_the_compact_subprotocol_it_gets_a_number_of_its_own() -> None:
    here = await ChangedHands.begin()
    reader = Reader(here.gateway(here.b), COMPACT)
    reader.resume(here)
    await settle()
    await here.lose_a()
    await here.say("c", task=here.b)
    starts = reader.transport.of_type("chat.response.start")
    assert [start["stream"] for start in starts] == [0, 1]
    numbers = [frame[0] for frame in reader.frames if isinstance(frame, list)]
    assert numbers == [0, 1]


async def test_a_connection_with_several_readers_moves_only_the_one_that_was_lost() -> None:
    here, reader = await reading()
    own = (await here.b.send("m2", "m1")).stream
    reader.send("response.resume", response_id=own.response_id, after=-1)
    await settle()
    await here.lose_a()
    await here.say("d", task=here.b)
    assert reader.connection.reading
    starts = [start["response_id"] for start in reader.transport.of_type("chat.response.start")]
    assert starts.count(own.response_id) == 1
    assert starts.count(here.response_id) == 2


@pytest.mark.parametrize("how", ["gone", "store down", "bug"])
async def test_a_response_that_is_not_found_again_ends_the_connection(how: str) -> None:
    """Its client comes back, here or elsewhere, and hears what is the matter."""
    here, reader = await reading()
    copy = await here.b.find(here.response_id)
    match how:
        case "gone":
            del here.b.shared.memory._heads[here.response_id]
        case "store down":
            here.b.responses.network.cut = True
        case _:
            here.b.responses.network.failures["head"] = ValueError("a bug in the store")
    here.b.orchestrator.responses.drop(copy)
    copy.lose()
    await settle()
    assert reader.transport.close is not None
    assert reader.transport.close[0] == 1001
    assert not reader.connection.reading


async def test_a_connection_that_closes_while_its_response_is_found_again_reads_nothing_more() -> (
    None
):
    here, reader = await reading()
    copy = await here.b.find(here.response_id)
    here.b.responses.network.hold("head")
    here.b.orchestrator.responses.drop(copy)
    copy.lose()
    await settle()
    reader.connection.close(1000, "gone")
    frames = len(reader.frames)
    here.b.responses.network.release()
    await settle()
    assert len(reader.frames) == frames
    assert not (await here.b.find(here.response_id)).readers


@pytest.mark.parametrize("then", ["socket drains", "continue", "copy grows"])
async def test_a_lost_reader_is_given_nothing_more_of_the_old_copy(then: str) -> None:
    """It is resumed behind what it had when the copy was lost: whatever came after that would
    come twice.
    """
    here, reader = await reading()
    copy = await here.b.find(here.response_id)
    if then == "socket drains":
        reader.connection.block()
    if then == "continue":
        reader.send("response.pause", response_id=here.response_id)
    await here.say("c")
    here.b.responses.network.hold("head")
    here.b.orchestrator.responses.drop(copy)
    copy.lose()
    match then:
        case "socket drains":
            reader.connection.unblock()
        case "continue":
            reader.send("response.continue", response_id=here.response_id)
        case _:
            copy.follow(["never on record"])
    before = reader.heard()
    assert before == [("start", 0), 1, 2][: 3 if then == "copy grows" else 2]
    here.b.responses.network.release()
    await settle()
    reader.send("response.continue", response_id=here.response_id)
    await settle()
    indexes = [index for index in reader.heard() if isinstance(index, int)]
    assert indexes == [1, 2]
    assert reader.text() == "abc"


@pytest.mark.parametrize("asked", ["before", "meanwhile", "before, and it continues meanwhile"])
async def test_a_pause_holds_also_when_the_response_changes_hands(asked: str) -> None:
    here, reader = await reading()
    copy = await here.b.find(here.response_id)
    if asked != "meanwhile":
        reader.send("response.pause", response_id=here.response_id)
    here.b.responses.network.hold("head")
    here.b.orchestrator.responses.drop(copy)
    copy.lose()
    await settle()
    if asked == "meanwhile":
        reader.send("response.pause", response_id=here.response_id)
    elif asked != "before":
        reader.send("response.continue", response_id=here.response_id)
    await here.say("c")
    here.b.responses.network.release()
    await settle()
    await here.say("d")
    held = [index for index in reader.heard() if isinstance(index, int)]
    assert held == ([1] if "continues" not in asked else [1, 2, 3])
    reader.send("response.continue", response_id=here.response_id)
    await settle()
    assert reader.text() == "abcd"


async def test_what_is_lost_again_before_it_was_found_is_found_all_the_same() -> None:
    here, reader = await reading()
    for _ in range(3):
        copy = await here.b.find(here.response_id)
        here.b.orchestrator.responses.drop(copy)
        copy.lose()
        await settle()
    await here.a.answer("c")
    await here.b.clock.pass_time(0.5)
    assert reader.text() == "abc"
    assert reader.frames[-1]["type"] == "chat.response.completed"


async def test_resuming_is_measured() -> None:
    _, reader = await reading()
    assert reader.gateway.metrics.distribution(catalogue.RESUME).count == 1
