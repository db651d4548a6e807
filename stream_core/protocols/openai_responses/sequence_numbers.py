"""The sequence numbers of OpenAI's Responses API, from an event's place in the log.

A number is a place value: the epoch, the index of the entry, and the event's rank within it. So
every task gives an event the same number, however it joins deltas, and a number says where its
reader goes on. Numbers grow, with gaps: clients compare them by size only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

ENTRY = 8
"""From the number of an entry's event to that of the next entry's of the same rank."""
# Up to 16 million entries an epoch. So the numbers of 15 epochs fit into 32 bits, which some
# clients have for them.
_EPOCH = 1 << 27
# Every open block has up to three events at the answer's end. There are at most 129 of them.
_FINAL = 512
MOST_CLOSING_ENTRIES = _FINAL // ENTRY
"""The numbers behind the last entry are those of so many entries more."""


class Rank(IntEnum):
    """The order of events that one entry of the log leads to."""

    TEXT_DONE = 0
    PART_DONE = 1
    ITEM_DONE = 2
    CALL_TEXT_DONE = 3
    CALL_DONE = 4
    ITEM_ADDED = 5
    PART_ADDED = 6
    DELTA = 7


def number(index: int, epoch: int, rank: int) -> int:
    """The number of an event. `index` is -1 for those before the first entry."""
    return (epoch - 1) * _EPOCH + (index + 1) * ENTRY + rank


def closing_number(last_index: int, epoch: int, order: int) -> int:
    """The number of an event behind the last entry. `order` counts them from 0."""
    return number(last_index + 1, epoch, order)


def final_number(last_index: int, epoch: int) -> int:
    """The number of the last event of all."""
    return closing_number(last_index, epoch, _FINAL)


class Known(NamedTuple):
    """What a reader has of a response.

    Attributes:
        last_index: of the last entry of which it has all events, -1 for none.
        epoch: of the last event that it has.
        begun: whether it has some events of the next entry.
    """

    last_index: int
    epoch: int
    begun: bool


def known_by(sequence_number: int) -> Known:
    """What a reader has that was given everything up to this number.

    For the events behind the last entry, `last_index` is up to `MOST_CLOSING_ENTRIES` too high. A
    negative number stands for nothing.
    """
    epoch, place = divmod(max(0, sequence_number), _EPOCH)
    index, rank = divmod(place, ENTRY)
    begun = rank != Rank.DELTA
    return Known(max(-1, index - 1 - begun), epoch + 1, begun and index > 0)
