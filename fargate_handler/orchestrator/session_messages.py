"""Reads the stored messages of sessions with their answers, and ends sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import NamedTuple

from evenflow.fargate_handler.orchestrator.ended_sessions import session_ended
from evenflow.fargate_handler.orchestrator.message_ledger import MessageTexts
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.replicas import store_reached
from evenflow.fargate_handler.orchestrator.responses import Responses
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Gone, NotFound
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import text_of
from evenflow.stream_core.log.response_log import ResponseLog, ResponseState
from evenflow.stream_core.stores.conversation_tree import ConversationTree
from evenflow.stream_core.stores.outcome import Outcome, contents_of
from evenflow.stream_core.stores.response_store import ResponseStore
from evenflow.stream_core.stores.session_store import (
    LedgerEntry,
    SessionStore,
    StoredConversation,
)

MOST_BYTES_PER_PAGE = 1_048_576
"""Bytes of text after which a page ends, whatever its limit. It has one message at least."""

# Pages read at the same time: each may be in memory, and the message that makes it too long.
_READ_AT_ONCE = 16
_END_LOOK_SECONDS, _END_LOOKS = 0.05, 60
# How long a cached tree may contain expired messages, and the number of cached trees.
_TREE_SECONDS, _MOST_TREES = 60.0, 64


@dataclass(frozen=True, slots=True)
class AnsweredMessage:
    """A stored message with its answer so far.

    Args:
        text: None if it is no longer kept.
        last_index: the last index of what there is, while the answer grows. None once it has ended.
        epoch: of the owner of that index.
        versions: the ids of all versions of this message, oldest first. Empty: there is only one.
    """

    entry: LedgerEntry
    text: str | None
    outcome: Outcome
    last_index: int | None = None
    epoch: int = 1
    versions: Sequence[str] = ()

    @property
    def size(self) -> int:
        """The bytes of its text, of its answer's, and of the names of its versions."""
        answer = sum(len(text_of(content).encode()) for content in self.outcome.contents)
        return len((self.text or "").encode()) + answer + sum(map(len, self.versions))


@dataclass(frozen=True, slots=True)
class MessagesPage:
    """Messages, oldest first. `next_before` is the oldest one's id if there are older ones."""

    messages: Sequence[AnsweredMessage]
    next_before: str | None


class _KnownTree(NamedTuple):
    """A cached tree of a session, up to `last_message_id`."""

    tree: ConversationTree
    last_message_id: str | None
    read_at: float


def _not_found(name: str) -> NotFound:
    return NotFound(
        f"this session has no such message as `{name}`; read without `{name}` for the newest ones",
        code="message_not_found",
        param=name,
    )


class SessionMessages:
    """Reads the conversations of sessions, and ends sessions.

    Args:
        local: the responses in this node's memory.
        stored: the responses of all nodes.
    """

    def __init__(
        self,
        context: NodeContext,
        sessions: SessionStore,
        texts: MessageTexts,
        *,
        local: Responses,
        stored: ResponseStore,
    ) -> None:
        self._sessions = sessions
        self._texts = texts
        self._local = local
        self._stored = stored
        self._wall_time = context.wall_time
        self._read_slots = asyncio.Semaphore(_READ_AT_ONCE)
        self._trees: dict[Channel, _KnownTree] = {}
        """The trees that were read last, the newest last. Each page of a conversation needs its
        tree, and reading that may read the whole ledger of the session.
        """

    async def page(
        self, channel: Channel, before: str | None, limit: int, through: str | None = None
    ) -> MessagesPage:
        """The newest messages of the conversation, or those before the message `before`.

        Args:
            through: a message of the version that is read. None: the newest version, or that of
                `before`.

        Raises:
            NotFound: there is no such message.
            Gone: the session was ended.
            Overloaded: the store can't be read.
        """
        with store_reached():
            async with self._read_slots:
                return await self._page(channel, before, limit, through)

    async def newest(self, channel: Channel) -> AnsweredMessage | None:
        """The last message of a session. None if there is none.

        Raises:
            Overloaded: the store can't be read.
        """
        with store_reached():
            async with self._read_slots:
                head = await self._sessions.head(channel, self._wall_time())
                if head.last_message_id is None:
                    return None
                entry = await self._sessions.message(
                    channel, head.last_message_id, self._wall_time()
                )
                return None if entry is None else await self._with_answer(channel, entry)

    async def _page(
        self, channel: Channel, before: str | None, limit: int, through: str | None
    ) -> MessagesPage:
        session = await self._sessions.head(channel, self._wall_time())
        if session.ended:
            raise session_ended()
        tree = await self._tree(channel, session) if session.has_versions else None
        page: list[AnsweredMessage] = []
        size = 0
        found = before is None
        start = before or await self._newest_of(channel, session, tree, through)
        async with aclosing(self._conversation(channel, session, start, tree)) as conversation:
            async for entry, versions in conversation:
                if not found:
                    found = True
                    continue
                if len(page) == limit or size >= MOST_BYTES_PER_PAGE:
                    return MessagesPage(page[::-1], page[-1].entry.message_id)
                message = await self._with_answer(channel, entry)
                page.append(replace(message, versions=versions))
                size += page[-1].size
        if not found:
            raise _not_found("before")
        return MessagesPage(page[::-1], None)

    async def _newest_of(
        self,
        channel: Channel,
        session: StoredConversation,
        tree: ConversationTree | None,
        through: str | None,
    ) -> str | None:
        """The newest message of the version that has `through`.

        Raises:
            NotFound: there is no such message.
        """
        if through is None:
            return session.last_message_id
        if await self._sessions.message(channel, through, self._wall_time()) is None:
            raise _not_found("through")
        path = tree.path_through(through) if tree is not None else ()
        return path[-1] if path else session.last_message_id

    async def _conversation(
        self,
        channel: Channel,
        session: StoredConversation,
        message_id: str | None,
        tree: ConversationTree | None,
    ) -> AsyncGenerator[tuple[LedgerEntry, Sequence[str]], None]:
        """The messages from this one back to the first, each with its versions."""
        seen = set[str]()  # a name that has expired may be another message's now
        while message_id is not None and message_id not in seen:
            seen.add(message_id)
            entry = await self._sessions.message(channel, message_id, self._wall_time())
            if entry is None:
                return
            if tree is None and entry.link.branches:
                # A node of an earlier release has accepted it, without its versions.
                tree = await self._tree(channel, session)
            versions = tree.versions_of(message_id) if tree is not None else ()
            yield entry, versions if len(versions) > 1 else ()
            message_id = (
                entry.previous_message_id if tree is None else tree.parent_of(entry.message_id)
            )

    async def _tree(self, channel: Channel, session: StoredConversation) -> ConversationTree:
        """The session's tree. It is cached for `_TREE_SECONDS`, until the next message."""
        last, now = session.last_message_id, self._wall_time()
        known = self._trees.pop(channel, None)
        if known is None or known.last_message_id != last or now > known.read_at + _TREE_SECONDS:
            links = await self._sessions.links(channel, last, now) if last else ()
            known = _KnownTree(ConversationTree(links), last, now)
        self._trees[channel] = known
        if len(self._trees) > _MOST_TREES:
            del self._trees[next(iter(self._trees))]
        return known.tree

    async def end(self, channel: Channel) -> Sequence[LedgerEntry]:
        """End a session: its messages are deleted, and no further one is accepted.

        Returns:
            The messages that it had.

        Raises:
            Overloaded: the store can't be written.
        """
        with store_reached():
            return await self._sessions.end(channel, self._wall_time())

    async def delete_answers(self, messages: Sequence[LedgerEntry]) -> None:
        """Delete the answers to messages and their large texts. Running answers end first.

        Raises:
            Overloaded: the store can't be written. What is left expires by itself.
        """
        running = [message.response_id for message in messages if not message.ended]
        with store_reached():
            for _ in range(_END_LOOKS):
                running = [each for each in running if await self._runs(each)]
                if not running:
                    break
                await asyncio.sleep(_END_LOOK_SECONDS)
            await self._stored.delete([message.response_id for message in messages])
            for message in messages:
                await self._texts.delete(message)

    async def _runs(self, response_id: str) -> bool:
        head = await self._stored.head(response_id, self._wall_time())
        return head is not None and head.ending is None

    async def _with_answer(self, channel: Channel, entry: LedgerEntry) -> AnsweredMessage:
        whole = await self._texts.whole(entry)
        text = whole.text if whole is not None else None
        stream = self._local.of_session(entry.response_id, channel)
        if stream is not None:
            return _of_stream(entry, text, stream)
        if entry.outcome:
            return AnsweredMessage(entry, text, Outcome.from_text(entry.outcome, entry.answer))
        return await self._of_store(entry, text)

    async def _of_store(self, entry: LedgerEntry, text: str | None) -> AnsweredMessage:
        """A message whose answer runs on another node, or ended there a moment ago."""
        found = await self._stored.entries(entry.response_id, 0, self._wall_time())
        if found.head is None:
            return AnsweredMessage(entry, text, _expired(entry))
        contents, ending = contents_of(found.entries), found.head.ending
        if ending is not None and found.next_index == ending.next_index:
            ended = Outcome(ending.state, contents, ending.finish_reason, ending.error)
            return AnsweredMessage(entry, text, ended)
        log = ResponseLog()
        log.extend(found.entries)
        state = ResponseState.STREAMING if found.entries else ResponseState.QUEUED
        last_index = found.next_index - 1
        return AnsweredMessage(
            entry, text, Outcome(state, contents), last_index, log.epoch_at(last_index)
        )


def _of_stream(entry: LedgerEntry, text: str | None, stream: ResponseStream) -> AnsweredMessage:
    log = stream.log
    contents = contents_of(log.entries)
    outcome = Outcome(stream.state, contents, stream.finish_reason, stream.error)
    if log.closed:
        return AnsweredMessage(entry, text, outcome)
    last_index = log.next_index - 1
    return AnsweredMessage(entry, text, outcome, last_index, log.epoch_at(last_index))


def _expired(entry: LedgerEntry) -> Outcome:
    """The outcome of an expired answer. Perhaps its text is still kept."""
    if entry.answer is not None:
        return Outcome(ResponseState.COMPLETED, (entry.answer,))
    gone = Gone("the answer is no longer kept; ask again", code="response_expired")
    return Outcome(ResponseState.ERROR, error=gone.to_object())
