"""Takes over the responses of lost nodes, so that every accepted message gets its answer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from evenflow.fargate_handler.orchestrator.leases import Ownership
from evenflow.fargate_handler.orchestrator.message_ledger import MessageTexts
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.sweep import Sweep
from evenflow.fargate_handler.orchestrator.workload import Workload
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import InternalError, RateLimited
from evenflow.stream_core.log.entries import Restart, size_of
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.records.answer_record import given_up_record
from evenflow.stream_core.records.answer_usage import given_up_usage
from evenflow.stream_core.session.token_estimate import tokens_of
from evenflow.stream_core.stores.dead_letters import DeadLetter, DeadLetters, DeadLettersUnavailable
from evenflow.stream_core.stores.outcome import Outcome, contents_of
from evenflow.stream_core.stores.response_store import (
    Chunk,
    Ending,
    Lease,
    LeaseLost,
    NodeLease,
    ResponseHead,
    StoredEntries,
    StoreUnavailable,
)
from evenflow.stream_core.stores.session_store import LedgerEntry, SessionStore, StoredConversation
from evenflow.stream_core.tenants.usage import UsageRecord

_logger = logging.getLogger(__name__)

OWNERS_EXHAUSTED = "attempts_exhausted"
"""The error code of a response that lost all of its owners."""

_SWEEP_SECONDS, _LOOK_SECONDS = (0.35, 0.65), 0.05
_AT_ONCE = 32
# How old a conversation may be that was read before its response could be taken over, in leases,
# and how many are kept.
_PREPARED_LEASES, _MOST_PREPARED = 2.0, 512
# How long a lost lease is remembered: messages that its node had just accepted may appear late.
_REMEMBERED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TakenOverResponse:
    """A response that this node has taken over.

    Args:
        message: the message that it answers.
        began_at: when its first delta came, in seconds on the monotonic clock.
        since: when the take-over began, likewise.
    """

    head: ResponseHead
    lease: Lease
    channel: Channel
    stored_log: StoredEntries
    stored_conversation: StoredConversation
    message: LedgerEntry
    began_at: float | None
    since: float


class Failover:
    """Finds leases that have run out, and takes over their owners' responses while there is room.

    Args:
        texts: keeps large texts of messages.
        dead_letters: stores messages whose owners were all lost.
        settle: stores the usage of a response that is given up.
        is_writing: whether this node already owns a response, by its id, and still stores it.
        resume: resumes a response. Returns False if this node already does.
    """

    def __init__(
        self,
        context: NodeContext,
        ownership: Ownership,
        workload: Workload,
        *,
        sessions: SessionStore,
        texts: MessageTexts,
        dead_letters: DeadLetters,
        settle: Callable[[UsageRecord], Awaitable[None]],
        is_writing: Callable[[str], bool],
        resume: Callable[[TakenOverResponse], bool],
    ) -> None:
        self._responses = ownership.responses
        self._keeper = ownership.keeper
        self._leases = ownership.leases
        self._workload = workload
        self._sessions = sessions
        self._texts = texts
        self._dead_letters = dead_letters
        self._limits = context.limits
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._settle = settle
        self._is_writing = is_writing
        self._resume = resume
        self._concurrency = asyncio.Semaphore(_AT_ONCE)
        self._taking: dict[str, asyncio.Task[bool]] = {}
        # Claimed in the store, but the reply was lost or there was no room: tried again each sweep.
        self._claimed: set[str] = set()
        # By response: its conversation, read ahead, and when that was, on the monotonic clock.
        self._prepared: dict[str, tuple[float, StoredConversation]] = {}
        self._is_store_failing = False
        self._logged_losses = set[str]()
        self._sweep = Sweep(context, self._sweep_leases, every=_SWEEP_SECONDS, look=_LOOK_SECONDS)
        self._background = Background()
        self._taken = context.metrics.counter(catalogue.TAKE_OVERS)
        self._dead = context.metrics.counter(catalogue.DEAD_LETTERS)

    def start(self) -> None:
        """Begin to look for lost nodes."""
        self._sweep.start()

    async def aclose(self) -> None:
        """Take nothing more over."""
        await self._sweep.aclose()
        await self._background.aclose()

    @property
    def _can_take_over(self) -> bool:
        return self._keeper.in_force and self._workload.has_room

    async def take_over(self, response_id: str) -> bool:
        """Become the owner of a response and resume it, if its owner's lease has run out.

        Returns:
            Whether this node resumes it, or has ended it.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        taking = self._taking.get(response_id)
        if taking is None:
            if not self._can_take_over:
                return False
            taking = self._background.run(self._when_slot_free(response_id))
            self._taking[response_id] = taking
            taking.add_done_callback(lambda _: self._taking.pop(response_id))
        return await asyncio.shield(taking)

    async def prepare(self, response_id: str, channel: Channel) -> None:
        """Read the conversation of a response that will be taken over if its owner is lost.

        That leaves only the claim and the log for the moment when a lease runs out, at which
        hundreds of responses are taken over.
        """
        if len(self._prepared) >= _MOST_PREPARED:
            return
        read_at = self._monotonic()
        try:
            conversation = await self._sessions.load(channel, self._wall_time())
        except StoreUnavailable:
            return  # it is read when the response is taken over
        # Another answer that still grows belongs into the history, and isn't there yet.
        if all(each.ended for each in conversation.messages if each.response_id != response_id):
            self._prepared[response_id] = read_at, conversation

    async def answer_accepted(self, response_id: str) -> None:
        """Answer a message that this node has stored and not begun: now, or when there is room."""
        self._claimed.add(response_id)
        await self._try_take_over(response_id)

    async def _sweep_leases(self) -> None:
        """Take over the responses of each node whose lease has run out."""
        self._drop_prepared()
        try:
            await self._try_all(list(self._claimed))
            # Also without room to take responses over: changes of leases must be noticed.
            for lease in (await self._leases.all()).values():
                if lease.owner == self._keeper.owner:
                    continue
                left = self._leases.seconds_left(lease)
                if not left and self._can_take_over:
                    await self._take_over_all_of(lease)
                # A lease that runs out before the next sweep hastens it.
                self._sweep.hasten(left or inf)
            self._is_store_failing = False
        except StoreUnavailable:
            if not self._is_store_failing:
                _logger.warning("the leases can't be read from the store now")
            self._is_store_failing = True

    async def _take_over_all_of(self, lease: NodeLease) -> None:
        if not await self._leases.declare_lost_if_expired(lease):
            return  # it was renewed after all
        left = list(await self._responses.unfinished(lease.owner))
        self._log_loss(lease.owner, len(left))
        if not left and lease.lost and self._leases.unchanged_for(lease) > _REMEMBERED_SECONDS:
            await self._responses.forget(lease.owner)
        # Other nodes sweep too. Each begins with the responses that have readers there. Then any
        # node takes the rest.
        with_readers = [response_id for response_id in left if self._is_read_here(response_id)]
        if with_readers:
            await self._try_all(with_readers)
            left = list(await self._responses.unfinished(lease.owner))
        await self._try_all(left)

    def _log_loss(self, owner: str, unfinished: int) -> None:
        """Log once that a node has left unfinished answers."""
        if unfinished and owner not in self._logged_losses:
            self._logged_losses.add(owner)
            _logger.warning(
                "node %s was lost, or left: the others go on with its %d unfinished answers",
                owner, unfinished,
            )  # fmt: skip
        elif not unfinished:
            self._logged_losses.discard(owner)

    async def _try_all(self, response_ids: list[str]) -> None:
        random.shuffle(response_ids)
        await asyncio.gather(*(self._try_take_over(response_id) for response_id in response_ids))

    def _is_read_here(self, response_id: str) -> bool:
        return self._workload.responses.of_any_session(response_id) is not None

    def _drop_prepared(self) -> None:
        """Drop what was read ahead and not needed: the owner lives, or another node took over."""
        oldest = self._monotonic() - _PREPARED_LEASES * self._limits.lease_seconds
        self._prepared = {
            response_id: (read_at, conversation)
            for response_id, (read_at, conversation) in self._prepared.items()
            if read_at >= oldest
        }

    async def _try_take_over(self, response_id: str) -> None:
        try:
            await self.take_over(response_id)
        except StoreUnavailable:
            return  # the next sweep finds it again

    async def _when_slot_free(self, response_id: str) -> bool:
        async with self._concurrency:
            # The room may be gone by now.
            return self._can_take_over and await self._claim_and_resume(response_id)

    async def _claim_and_resume(self, response_id: str) -> bool:
        if self._is_writing(response_id):
            # This comes first: once it is written, the store says that it has ended.
            self._claimed.discard(response_id)
            return True
        # Before the call: its answer may be lost, and then no node would look for it.
        self._claimed.add(response_id)
        since = self._monotonic()
        stored_log = await self._responses.take_over(
            response_id, self._keeper.owner, self._wall_time()
        )
        if stored_log is None or stored_log.head is None:
            self._claimed.discard(response_id)
            return False
        head = stored_log.head
        channel = Channel(*head.channel.split(":"))
        prepared = self._prepared.pop(response_id, None)
        stored_conversation = (
            await self._sessions.load(channel, self._wall_time())
            if prepared is None
            else prepared[1]
        )
        messages = stored_conversation.messages
        message = next((each for each in messages if each.response_id == response_id), None)
        message = await self._texts.whole(message) if message is not None else None
        if head.losses >= self._limits.owners_per_response or message is None:
            terms = MessageTerms.from_text("" if message is None else message.terms)
            await self._give_up(head, channel, stored_log, terms)
        else:
            began_at = (
                None
                if stored_log.began_at is None
                else self._monotonic() - (self._wall_time() - stored_log.began_at)
            )
            if head.owner != self._keeper.owner:
                self._claimed.discard(response_id)
                return False  # this node has lost its lease meanwhile, and so this response
            try:
                self._taken.value += self._resume(
                    TakenOverResponse(
                        head,
                        head.lease,
                        channel,
                        stored_log,
                        stored_conversation,
                        message,
                        began_at,
                        since,
                    )
                )
            except RateLimited:
                return False  # no room now: the next sweep tries again
        self._claimed.discard(response_id)
        return True

    async def _give_up(
        self, head: ResponseHead, channel: Channel, stored_log: StoredEntries, terms: MessageTerms
    ) -> None:
        """End a response that lost too many owners, perhaps by its own fault, or expired."""
        now, losses = self._wall_time(), head.losses
        letter = DeadLetter(
            head.response_id, head.channel, head.message_id, losses, OWNERS_EXHAUSTED, now
        )
        _logger.error(
            "response %s: %d nodes were lost while they answered it; given up",
            head.response_id,
            losses,
        )
        try:
            await self._dead_letters.send(letter)
        except DeadLettersUnavailable as error:
            raise StoreUnavailable(str(error)) from error
        self._dead.value += 1
        exhausted = InternalError(
            f"{losses} nodes were lost while they answered this message; what was delivered and "
            "the message are kept, send it again as a new one",
            code=OWNERS_EXHAUSTED,
        )
        # Readers may have more than is stored. The marker tells them so. This owner makes no
        # attempt, so the epoch takes its number, as in `given_up_record`.
        marker = Restart(stored_log.next_index - 1, attempt=head.epoch, epoch=head.epoch)
        chunk = Chunk(
            head.response_id,
            head.epoch,
            stored_log.next_index,
            [marker],
            stored_log.began_at or now,
        )
        if await self._responses.append([chunk]):
            raise StoreUnavailable("the last entry of a response was not stored")
        ending = Ending(ResponseState.ERROR, chunk.last_index + 1, now, error=exhausted.to_object())
        # In this order: a response that has ended is not looked at again.
        contents = contents_of(stored_log.entries)
        outcome = Outcome(ending.state, contents, error=ending.error).to_text(None)
        await self._sessions.record_answer(channel, head.message_id, None, outcome)
        tokens = tokens_of(sum(map(size_of, stored_log.entries)))
        await self._settle(given_up_usage(head, terms, now, tokens, OWNERS_EXHAUSTED))
        try:
            await self._responses.finish(
                head.lease, ending, now + self._limits.response_ttl_seconds
            )
        except LeaseLost:
            _logger.warning("response %s has another owner already", head.response_id)
            return
        log_event(given_up_record(head, ending.next_index, OWNERS_EXHAUSTED))
