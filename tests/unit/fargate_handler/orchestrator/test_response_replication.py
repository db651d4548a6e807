from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView, Ownership
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.response_replication import Diverged, ResponseReplication
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import LogEntry, Part, PartKind, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.peer_log import PeerConnectionLost, PeerResponse
from evenflow.stream_core.stores.memory_store import MemoryResponseStore
from evenflow.stream_core.stores.response_store import (
    TEXT_FORM,
    Chunk,
    Ending,
    NewerForm,
    NodeLease,
    ResponseHead,
)
from tests.unit.fargate_handler.orchestrator.scripted_peer import (
    ScriptedPeer,
    completed,
    delta,
    event,
    failed,
    queued,
    restarted,
)
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
    ScriptedResponseStore,
)
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

EPOCH = 1_800_000_000.0
ADDRESS = "http://a:8080"
BEAT = 0.16
"""The interval of the store, and some."""


class Node:
    """Task `b`, which follows a response of task `a`."""

    def __init__(self) -> None:
        self.clock = HandTurnedClock()
        self.clock.drive_timers()
        self.memory = MemoryResponseStore()
        self.store = ScriptedResponseStore(self.memory)
        self.peer = ScriptedPeer()
        self.asked_to_take_over: list[str] = []
        self.takes_over = False
        self.prepared: list[str] = []
        self.head = ResponseHead(
            "r", "t:demo:s", "m1", "a", 1, self.wall_time(), self.wall_time() + 86_400
        )
        self.memory.create(self.head)
        self.a_lives = True
        self.owned_by_a(address=ADDRESS)
        self.clock.delivery.put_after(self, 1.0)
        self.stream = ResponseStream(
            response_id="r",
            message_id="m1",
            channel=Channel("t", "demo", "s"),
            clock=self.clock.delivery,
            limits=Limits(),
            monotonic=self.clock.monotonic,
        )
        self.reader = RecordingReader(self.stream, self.clock, AssembledText())
        self.stream.attach(self.reader)

    def wall_time(self) -> float:
        return EPOCH + self.clock.now

    def owned_by_a(self, *, address: str | None = None, lost: bool = False) -> None:
        self.memory._leases["a"] = NodeLease("a", self.wall_time() + 3.0, lost, address)

    def on_due(self, _slot: int) -> None:
        """The owner renews its lease."""
        self.clock.delivery.put_after(self, 1.0)
        lease = self.memory._leases.get("a")
        if self.a_lives and lease is not None and not lease.lost:
            self.memory._leases["a"] = replace(lease, until=self.wall_time() + 3.0)

    async def follow(self) -> asyncio.Task[None]:
        head = await self.memory.head("r", self.wall_time())
        assert head is not None
        context = NodeContext(
            Limits(), self.clock.delivery, Metrics(), self.clock.monotonic, self.wall_time
        )
        keeper = LeaseKeeper(context, self.store, name="b", address=None, on_lost=lambda: None)
        await keeper.start()
        leases = LeaseView(context, self.store, keeper)
        self.following = ResponseReplication(
            context,
            Ownership(self.store, keeper, leases, self.peer),
            self.stream,
            head,
            pause=lambda: Limits().polled_store_interval_ms / 1000,
            take_over=self._take_over,
            prepare=self._prepare,
        )
        run = asyncio.create_task(self.following.run())
        await settle()
        return run

    async def _take_over(self, response_id: str) -> bool:
        self.asked_to_take_over.append(response_id)
        return self.takes_over

    async def _prepare(self, response_id: str, _channel: Channel) -> None:
        self.prepared.append(response_id)

    async def write(self, *entries: LogEntry, first: int = 0, epoch: int = 1) -> None:
        """The owner has these put on record."""
        await self.memory.append([Chunk("r", epoch, first, list(entries), self.wall_time())])

    async def end(
        self, next_index: int, state: ResponseState = ResponseState.COMPLETED, **how: object
    ) -> None:
        """The owner has the end put on record."""
        head = await self.memory.head("r", self.wall_time())
        assert head is not None
        ending = replace(Ending(state, next_index, self.wall_time()), **how)  # type: ignore[arg-type]
        await self.memory.finish(head.lease, ending, self.wall_time() + 300)

    async def taken_over(self, start: int) -> None:
        """Another task, `c`, owns it from that index on, and begins with its marker there."""
        self.owned_by_a(lost=True)
        head = self.memory._heads["r"]
        self.memory._heads["r"] = replace(head, owner="c", epoch=2, starts={1: 0, 2: start})
        await self.memory.renew("c", self.wall_time() + 3_600.0)
        await self.write(Restart(start - 1, 2, 2), first=start, epoch=2)

    @property
    def entries(self) -> Sequence[LogEntry]:
        return self.stream.log.entries

    async def diverges(self, run: asyncio.Task[None]) -> None:
        """It says so, and nothing of it was added."""
        before = list(self.entries)
        for _ in range(60):
            await self.clock.pass_time(0.05)
            if run.done():
                break
        assert isinstance(run.exception(), Diverged)
        assert self.entries == before
        assert not self.stream.log.closed


async def stopped(run: asyncio.Task[None]) -> None:
    run.cancel()
    await settle()
    assert run.cancelled()


# -- at its owner ----------------------------------------------------------------------------------


async def test_the_owner_is_followed_and_the_store_is_not_read() -> None:
    node = Node()
    run = await node.follow()
    assert node.peer.asked == [(PeerResponse(ADDRESS, Channel("t", "demo", "s"), "r", 1), -1)]
    assert not node.following.filled.is_set()
    node.peer.say(delta(0, "a"), delta(1, "b"))
    await settle()
    assert node.following.filled.is_set()
    assert node.stream.via == "peer"
    assert node.reader.held.text == "ab"
    node.peer.say(delta(2, "c"))
    await settle()
    assert node.reader.held.text == "abc"
    await node.clock.pass_time(5.0, step=0.05)
    assert node.store.network.calls["entries"] == 0
    await stopped(run)
    assert node.peer.open == 0


async def test_parts_are_followed_like_text() -> None:
    node = Node()
    run = await node.follow()
    reasoning = Part(PartKind.REASONING, "hm", name="reasoning_content")
    source = Part(PartKind.DATA, '{"url":"https://example.org/"}', name="source")
    node.peer.say(event(0, reasoning), delta(1, "a"))
    node.peer.say(event(2, source), event(3, Part(PartKind.CALL_END)))
    await settle()
    assert node.entries == [reasoning, "a", source, Part(PartKind.CALL_END)]
    await stopped(run)


async def test_an_owner_that_has_nothing_yet_fills_the_copy_with_that() -> None:
    node = Node()
    run = await node.follow()
    node.peer.say()
    await settle()
    assert node.following.filled.is_set()
    assert (node.entries, node.stream.via, node.stream.state) == ([], "peer", ResponseState.QUEUED)
    await stopped(run)


@pytest.mark.parametrize(
    ("last", "state", "finish_reason", "code"),
    [
        (completed(1), ResponseState.COMPLETED, "stop", None),
        (completed(1, "cancelled"), ResponseState.CANCELLED, "cancelled", None),
        (completed(1, "abandoned"), ResponseState.CANCELLED, "abandoned", None),
        (failed(1), ResponseState.ERROR, None, "upstream_failed"),
    ],
)
async def test_it_ends_as_its_owner_says_whatever_is_on_record_by_then(
    last: object, state: ResponseState, finish_reason: str | None, code: str | None
) -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await settle()
    await node.write("a", "b")
    await node.end(2, state)
    node.peer.say(delta(1, "b"), last)  # type: ignore[arg-type]
    await node.clock.pass_time(3.0)
    assert run.done()
    assert run.exception() is None
    assert (node.stream.state, node.stream.finish_reason) == (state, finish_reason)
    assert (node.stream.error or {}).get("code") == code
    assert node.reader.held.text == "ab"
    assert node.reader not in node.stream.readers
    assert node.store.network.calls["entries"] == 0
    assert node.peer.open == 0


async def test_restarts_of_the_owner_are_its_own_and_a_later_owner_s_marker_begins_an_epoch() -> (
    None
):
    node = Node()
    run = await node.follow()
    node.peer.say(
        delta(0, "a"),
        restarted(1),
        delta(2, "b"),
        restarted(3, 2, attempt=3, epoch=2),
        restarted(4, attempt=4, epoch=2),
    )
    await settle()
    assert node.entries == ["a", Restart(-1, 2), "b", Restart(2, 3, 2), Restart(-1, 4)]
    assert node.stream.log.epoch_at(4) == 2
    node.peer.break_off()
    await node.clock.pass_time(2.3)
    assert node.peer.asked[-1] == (PeerResponse(ADDRESS, Channel("t", "demo", "s"), "r", 2), 4)
    await stopped(run)


async def test_when_the_owner_breaks_off_the_store_is_read_and_then_the_owner_asked_again() -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await settle()
    node.peer.break_off()
    await node.write("a", "b")
    await node.clock.pass_time(BEAT)
    assert (node.stream.via, node.reader.held.text) == ("store", "ab")
    await node.write("c", first=2)
    await node.clock.pass_time(BEAT)
    assert node.reader.held.text == "abc"
    assert len(node.peer.asked) == 1
    await node.clock.pass_time(2.0)
    assert node.peer.asked[1][1] == 2
    node.peer.say(delta(3, "d"))
    await settle()
    assert (node.stream.via, node.reader.held.text) == ("peer", "abcd")
    assert node.reader.held.indexes == [0, 1, 2, 3]
    await stopped(run)


async def test_the_place_in_the_queue_is_told_and_is_no_entry() -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(queued(2))
    await settle()
    assert (node.entries, node.stream.state) == ([], ResponseState.QUEUED)
    node.peer.say(queued(1))
    node.peer.say(queued(0))
    await settle()
    assert [place.position for place in node.reader.places if place.position] == [2, 1]
    assert node.stream.place is None
    node.peer.say(queued(1), delta(0, "a"))
    await settle()
    assert (node.stream.place, node.reader.held.text) == (None, "a")
    await stopped(run)


async def test_where_the_owner_breaks_off_the_place_is_not_known_until_it_says_it_again() -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(queued(1))
    await settle()
    assert node.stream.place is not None
    node.peer.break_off()
    await node.clock.pass_time(2.3)
    assert len(node.peer.asked) == 2
    assert node.stream.place is None
    node.peer.say(queued(1))
    await settle()
    assert [place.position for place in node.reader.places] == [1, 1]
    await stopped(run)


async def test_an_owner_without_an_address_is_followed_in_the_store() -> None:
    node = Node()
    node.owned_by_a()
    await node.write("a")
    run = await node.follow()
    assert node.following.filled.is_set()
    assert (node.stream.via, node.entries, node.peer.asked) == ("store", ["a"], [])
    await stopped(run)


@pytest.mark.parametrize(
    "event",
    [delta(3, "from the middle"), delta(0, "again"), restarted(-1, epoch=2), restarted(2, epoch=2)],
    ids=["gap", "repetition", "from the beginning", "marker elsewhere"],
)
async def test_what_does_not_follow_at_the_owner_means_that_this_copy_is_not_the_response(
    event: object,
) -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await settle()
    node.peer.say(event)  # type: ignore[arg-type]
    await node.diverges(run)
    assert node.peer.open == 0, "nothing is left open"


async def test_of_a_list_that_does_not_follow_nothing_is_added() -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await settle()
    node.peer.say(delta(1, "b"), delta(3, "d"))
    await node.diverges(run)
    assert node.reader.held.text == "a"


# -- in the store ----------------------------------------------------------------------------------


async def test_what_is_on_record_is_read_in_the_beat_in_which_it_is_written() -> None:
    node = Node()
    node.peer.reachable = False
    run = await node.follow()
    assert (node.stream.via, node.entries) == ("store", [])
    assert node.following.filled.is_set()
    for index, text in enumerate("abc"):
        await node.write(text, first=index)
        await node.clock.pass_time(BEAT)
    assert node.reader.held.text == "abc"
    reads = node.store.network.calls["entries"]
    await node.clock.pass_time(1.5)
    assert 9 <= node.store.network.calls["entries"] - reads <= 11
    await stopped(run)


async def test_its_readers_are_noted_so_that_the_owner_does_not_give_it_up() -> None:
    node = Node()
    node.peer.reachable = False
    run = await node.follow()
    await node.clock.pass_time(30.0, step=0.05)
    assert 3 <= node.memory._heads["r"].polls <= 4
    await stopped(run)


async def test_a_later_owner_that_begins_where_this_copy_ends_is_followed_on() -> None:
    node = Node()
    node.peer.reachable = False
    await node.write("a", "b")
    run = await node.follow()
    await node.taken_over(2)
    await node.write("c", first=3, epoch=2)
    await node.clock.pass_time(BEAT)
    assert node.entries == ["a", "b", Restart(1, 2, 2), "c"]
    assert node.stream.log.epoch_at(3) == 2
    assert not run.done()
    await stopped(run)


async def test_a_later_owner_that_begins_within_this_copy_makes_it_another_response() -> None:
    """This copy had it from the earlier owner, which was lost before it was all on record."""
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"), delta(1, "b"), delta(2, "c"))
    await settle()
    await node.write("a", "b")
    await node.taken_over(2)
    node.peer.break_off()
    await node.diverges(run)


async def test_an_owner_that_has_only_just_taken_over_says_nothing_yet() -> None:
    node = Node()
    node.peer.reachable = False
    await node.write("a", "b")
    run = await node.follow()
    node.memory._heads["r"] = replace(node.memory._heads["r"], owner="c", epoch=2)
    await node.memory.renew("c", node.wall_time() + 3_600.0)
    await node.clock.pass_time(3.0)
    assert node.entries == ["a", "b"]
    assert not run.done()
    await node.taken_over(2)
    await node.clock.pass_time(3.0)
    assert node.entries == ["a", "b", Restart(1, 2, 2)]
    await stopped(run)


async def test_a_response_that_has_ended_is_read_and_nobody_is_asked_for_it() -> None:
    node = Node()
    node.owned_by_a(lost=True)
    await node.write("a", "b")
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    await node.end(2, finish_reason="length", usage=usage, degraded=True)
    await node.clock.pass_time(100.0, step=1.0)
    run = await node.follow()
    assert run.done()
    assert (node.stream.state, node.stream.finish_reason) == (ResponseState.COMPLETED, "length")
    assert (node.stream.usage, node.stream.degraded) == (
        Usage(prompt_tokens=1, completion_tokens=2),
        True,
    )
    assert node.stream.ended_at == pytest.approx(node.clock.now - 100.0, abs=0.1)
    assert (node.peer.asked, node.asked_to_take_over) == ([], [])
    assert node.reader.held.text == "ab"


async def test_the_record_of_an_owner_with_an_old_lease_is_not_read_until_it_has_run_out() -> None:
    node = Node()
    node.a_lives = node.peer.reachable = False
    await node.write("a")
    run = await node.follow()
    assert node.entries == ["a"]
    await node.clock.pass_time(2.2, step=0.05)
    assert not node.following.reads_store, "most likely nobody writes"
    reads = node.store.network.calls["entries"]
    await node.clock.pass_time(0.75, step=0.05)
    assert node.asked_to_take_over == []
    await node.clock.pass_time(0.1)
    assert node.asked_to_take_over == ["r"], "in the moment in which it has run out"
    assert node.store.network.calls["entries"] <= reads + 1
    await stopped(run)


async def test_the_end_is_not_told_before_all_of_it_is_there() -> None:
    node = Node()
    node.peer.reachable = False
    await node.write("a")
    run = await node.follow()
    await node.end(3, ResponseState.ERROR, error={"code": "upstream_failed"})
    await node.clock.pass_time(5.0)
    assert (node.entries, node.stream.log.closed) == (["a"], False)
    assert len(node.peer.asked) == 1, "it has ended: there is no owner to ask"
    await node.write("b", "c", first=1)
    await node.clock.pass_time(BEAT)
    assert run.done()
    assert node.reader.held.text == "abc"
    assert node.stream.error == {"code": "upstream_failed"}


async def test_what_has_expired_is_no_copy_of_anything_any_more() -> None:
    node = Node()
    node.peer.reachable = False
    await node.write("a")
    run = await node.follow()
    del node.memory._heads["r"]
    await node.diverges(run)


async def test_a_record_in_a_form_that_is_not_known_here_gives_the_copy_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await settle()
    monkeypatch.setattr("evenflow.stream_core.stores.response_store.NEWEST_FORM", TEXT_FORM)
    await node.write("a", Part(PartKind.REASONING, "hm"))
    node.peer.reachable = False
    node.peer.break_off()
    await node.clock.pass_time(BEAT)
    assert run.done()
    assert isinstance(run.exception(), NewerForm)
    assert node.entries == ["a"]
    assert node.asked_to_take_over == []


async def test_while_the_store_is_down_the_copy_stays_as_it_is() -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await settle()
    for call in ("entries", "leases", "note_read"):
        node.store.network.failures[call] = UNREACHABLE
    node.peer.reachable = False
    node.peer.break_off()
    await node.clock.pass_time(10.0, step=0.05)
    assert (node.entries, run.done()) == (["a"], False)
    assert node.asked_to_take_over == [], "nothing is known of the owner's lease"
    await node.write("a", "b")
    node.store.network.failures.clear()
    await node.clock.pass_time(BEAT)
    assert node.reader.held.text == "ab"
    await stopped(run)


# -- when its owner is lost ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "forgotten", "our own"])
async def test_a_response_whose_owner_is_lost_is_taken_over(how: str) -> None:
    node = Node()
    match how:
        case "lost":
            node.owned_by_a(lost=True, address=ADDRESS)
        case "forgotten":
            del node.memory._leases["a"]
        case _:
            node.memory._heads["r"] = replace(node.head, owner="b")
            await node.memory.renew("b", node.wall_time() + 10, ADDRESS)
    node.takes_over = True
    run = await node.follow()
    assert run.done()
    assert run.exception() is None
    assert node.asked_to_take_over == ["r"]
    assert node.peer.asked == []


async def test_what_cannot_be_taken_over_now_is_followed_in_the_store_and_asked_for_again() -> None:
    node = Node()
    node.owned_by_a(lost=True)
    await node.write("a")
    run = await node.follow()
    assert node.reader.held.text == "a"
    await node.clock.pass_time(1.5)
    assert node.asked_to_take_over == ["r"]
    node.takes_over = True
    await node.clock.pass_time(1.0)
    assert node.asked_to_take_over == ["r", "r"]
    assert run.done()


async def test_an_owner_that_is_lost_while_it_is_followed_is_noticed_when_it_breaks_off() -> None:
    node = Node()
    node.takes_over = True
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await settle()
    await node.clock.pass_time(0.1)
    node.owned_by_a(lost=True)
    node.peer.break_off()
    await node.write("a")
    await settle()
    assert run.done(), "at once"
    assert node.asked_to_take_over == ["r"]


async def test_of_an_owner_that_seems_gone_the_record_is_read_once_until_it_renews_or_is_lost() -> (
    None
):
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await node.clock.pass_time(0.2)
    await node.write("a", "b")
    node.peer.break_off(PeerConnectionLost("broken"))
    node.peer.reachable = False
    await node.clock.pass_time(0.5)
    assert (node.reader.held.text, node.store.network.calls["entries"]) == ("ab", 1)
    await node.write("c", first=2)
    await node.clock.pass_time(1.0)
    assert node.reader.held.text == "abc", "it has renewed its lease: it lives, and is read"
    await node.write("d", first=3)
    await node.clock.pass_time(BEAT)
    assert node.reader.held.text == "abcd"
    await stopped(run)


async def test_the_record_of_a_lost_owner_is_read_once_before_it_is_taken_over() -> None:
    """Also where its lease was renewed just before: hundreds of replicas would poll the store."""
    node = Node()
    node.takes_over = True
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await node.clock.pass_time(2.05)
    await node.write("a")
    node.a_lives = node.peer.reachable = False
    node.peer.break_off(PeerConnectionLost("broken"))
    await node.clock.pass_time(2.9, step=0.05)
    assert node.asked_to_take_over == []
    assert node.prepared == ["r"]
    assert node.store.network.calls["entries"] == 1
    assert node.store.network.calls["note_read"] == 0
    await node.clock.pass_time(0.2, step=0.05)
    assert node.asked_to_take_over == ["r"]
    assert run.done()


async def test_who_waits_for_an_owner_that_seems_gone_goes_on_when_another_has_it() -> None:
    node = Node()
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await node.clock.pass_time(0.2)
    await node.write("a")
    node.a_lives = False
    node.peer.break_off(PeerConnectionLost("broken"))
    node.peer.reachable = False
    await node.clock.pass_time(0.5)
    await node.taken_over(1)
    await node.clock.pass_time(1.0)
    assert node.entries == ["a", Restart(0, 2, 2)]
    await stopped(run)


async def test_when_an_owner_s_stream_breaks_off_its_lease_is_read_at_once() -> None:
    """The sooner its last renewal is seen, the sooner the lease has run out."""
    node = Node()
    node.takes_over = True
    run = await node.follow()
    node.peer.say(delta(0, "a"))
    await node.clock.pass_time(2.05)
    node.a_lives = node.peer.reachable = False
    await node.write("a")
    node.peer.break_off()
    await node.clock.pass_time(2.9, step=0.05)
    assert not run.done()
    await node.clock.pass_time(0.2)
    assert run.done()
    assert node.asked_to_take_over == ["r"]
    assert node.memory._leases["a"].lost
