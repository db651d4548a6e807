"""The versions of a conversation: the order of messages in each.

A session's messages are accepted one after the other. A message that replaces another one, or
continues an older version, begins a branch of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar


class MessageLink(NamedTuple):
    """A message's place: the message accepted before it, and its version.

    `replaces` and `parent_message_id` are as in `LedgerEntry`.
    """

    message_id: str
    previous_message_id: str | None
    replaces: str | None = None
    parent_message_id: str | None = None

    @property
    def branches(self) -> bool:
        """Whether it begins a branch."""
        return self.replaces is not None or self.parent_message_id is not None


class Linked(Protocol):
    """A message with a link to the one before."""

    @property
    def message_id(self) -> str:
        """Its id."""

    @property
    def previous_message_id(self) -> str | None:
        """The id of the one accepted before it."""


Message = TypeVar("Message", bound=Linked)


def in_causal_order(last_message_id: str | None, messages: Sequence[Message]) -> list[Message]:
    """The messages up to `last_message_id`, from the oldest that is linked to it."""
    by_id = {message.message_id: message for message in messages}
    chain: list[Message] = []
    message_id = last_message_id
    while message_id is not None and (message := by_id.pop(message_id, None)) is not None:
        chain.append(message)
        message_id = message.previous_message_id
    return chain[::-1]


_Place = tuple[str | None, str | None]
"""A place in the conversation, as (replaced message, previous message). The first is set if the
place is that of a message that is no longer stored. The second may be gone, too.
"""


class ConversationTree:
    """The messages of a session as a tree. Each version of the conversation is a path in it.

    Args:
        links: those of all messages, in causal order.
    """

    def __init__(self, links: Iterable[MessageLink]) -> None:
        self._parents: dict[str, str | None] = {}
        self._places: dict[str, _Place] = {}
        self._versions: dict[_Place, list[str]] = {}
        for link in links:
            place = self._places[link.message_id] = self._place_of(link)
            self._parents[link.message_id] = self._parent_of(link)
            self._versions.setdefault(place, []).append(link.message_id)

    def _parent_of(self, link: MessageLink) -> str | None:
        if link.replaces is not None:
            # A message that is no longer kept was before all kept ones.
            return self._parents.get(link.replaces)
        parent = _named_parent(link)
        return parent if parent in self._parents else None

    def _place_of(self, link: MessageLink) -> _Place:
        if link.replaces is not None:
            return self._places.get(link.replaces, (link.replaces, None))
        return None, _named_parent(link)

    def path_through(self, message_id: str | None) -> list[str]:
        """The newest version that has this message, oldest first. Empty for an unknown one."""
        if message_id is None or message_id not in self._parents:
            return []
        last, below = message_id, {message_id}
        for each, parent in self._parents.items():
            if parent in below:
                below.add(each)
                last = each
        return [*self._path_before(last), last]

    def _path_before(self, message_id: str) -> list[str]:
        path: list[str] = []
        parent = self._parents[message_id]
        while parent is not None:
            path.append(parent)
            parent = self._parents[parent]
        return path[::-1]

    def parent_of(self, message_id: str) -> str | None:
        """The message before this one. None for the first, and an unknown one."""
        return self._parents.get(message_id)

    def versions_of(self, message_id: str) -> Sequence[str]:
        """This message and its replacements in other versions, oldest first."""
        return self._versions[self._places[message_id]] if message_id in self._places else ()


def _named_parent(link: MessageLink) -> str | None:
    """The previous message that the link names. It may no longer be stored."""
    return link.parent_message_id or link.previous_message_id
