"""The rules by which chunks become what a reader gets, against an oracle that knows the whole
story.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenflow.stream_core.log.entries import LogEntry, Part, PartKind
from evenflow.stream_core.stores.response_store import (
    NEWEST_FORM,
    Chunk,
    NewerForm,
    ResponseHead,
    gapless,
)

LENGTH = 6
"""Entries that each owner would write.

An entry names its epoch and index, so that a stale one can be told apart.
"""


@dataclass(frozen=True)
class Write:
    """The owner of `epoch` (or whoever owns it now, when there is no such) writes entries
    `first` … `end`.
    """

    epoch: int
    first: int
    end: int


@dataclass(frozen=True)
class Claim:
    """Somebody raises the epoch: from now on the earlier owner's writes are late."""


@dataclass(frozen=True)
class Start:
    """The one who claimed reads what is there and says from where on it counts."""


Step = Write | Claim | Start

STEPS = st.lists(
    st.one_of(
        st.builds(
            Write, st.integers(1, 4), st.integers(0, LENGTH - 1), st.integers(1, LENGTH)
        ).filter(lambda write: write.first < write.end),
        st.just(Claim()),
        st.just(Start()),
    ),
    max_size=24,
)


def said(epoch: int, index: int) -> LogEntry:
    """What the owner of `epoch` wrote there."""
    text = f"{epoch}.{index}"
    return Part(PartKind.REASONING, text) if index % 2 else text


@dataclass
class Story:
    """A response's life: what its head says, and which chunks have arrived."""

    head: ResponseHead = field(
        default_factory=lambda: ResponseHead("r", "t:a:s", "m", "task-1", 1, 0.0, 1.0)
    )
    chunks: list[Chunk] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    """The oracle: the epoch that each index belongs to, up to where the present owner began."""
    arrived: set[tuple[int, int]] = field(default_factory=set)
    """The oracle: the (epoch, index) of every entry that is there."""

    def play(self, step: Step) -> None:
        match step:
            case Claim():
                self.head = replace(self.head, epoch=self.head.epoch + 1)
            case Start() if self.head.epoch not in self.head.starts:
                begun = max(self.head.starts)
                start = gapless(replace(self.head, epoch=begun), self.chunks, 0).next_index
                self.owners = [self.owner_of(index, begun) for index in range(start)]
                self.head = replace(self.head, starts={**self.head.starts, self.head.epoch: start})
            case Write() if min(step.epoch, self.head.epoch) in self.head.starts:
                epoch = min(step.epoch, self.head.epoch)
                # Also below its start, where it has no say, and also when it is stale.
                entries = [said(epoch, index) for index in range(step.first, step.end)]
                self.chunks.append(Chunk("r", epoch, step.first, entries, float(epoch)))
                self.arrived |= {(epoch, index) for index in range(step.first, step.end)}

    def owner_of(self, index: int, present: int) -> int:
        return self.owners[index] if index < len(self.owners) else present

    def expected(self, from_index: int) -> list[LogEntry]:
        """What a reader should get, entry by entry."""
        if self.head.epoch not in self.head.starts:
            return []
        entries: list[LogEntry] = []
        index = from_index
        while (owner := self.owner_of(index, self.head.epoch), index) in self.arrived:
            entries.append(said(owner, index))
            index += 1
        return entries


@given(STEPS, st.integers(0, LENGTH + 1), st.randoms(use_true_random=False))
@example(
    [Write(1, 0, 2), Claim(), Write(1, 2, 4), Start(), Write(1, 2, 6), Write(2, 4, 6)], 0, None
)
@example(
    [Write(1, 0, 2), Write(1, 3, 4), Claim(), Start(), Write(1, 2, 3), Write(2, 2, 3)], 0, None
)
@example([Write(1, 0, 1), Write(1, 1, 2), Claim(), Start(), Write(2, 0, 3)], 0, None)
@example(
    [Write(1, 0, 3), Claim(), Claim(), Write(1, 3, 5), Start(), Write(1, 0, 8), Write(3, 3, 6)],
    2,
    None,
)
@settings(max_examples=3 * settings().max_examples)
def test_a_reader_gets_what_counts_without_a_gap(
    steps: list[Step], from_index: int, shuffler: object
) -> None:
    story = Story()
    for step in steps:
        story.play(step)
        chunks = [*story.chunks, *story.chunks[:2]]
        if shuffler is not None:
            shuffler.shuffle(chunks)  # type: ignore[attr-defined]
        read = gapless(story.head, chunks, from_index)
        assert read.first_index == from_index
        assert list(read.entries) == story.expected(from_index)
        assert read.next_index == from_index + len(read.entries)


@given(STEPS)
@settings(max_examples=3 * settings().max_examples)
def test_what_was_read_once_is_never_read_otherwise(steps: list[Step]) -> None:
    story = Story()
    longest: list[LogEntry] = []
    for step in steps:
        story.play(step)
        read = list(gapless(story.head, story.chunks, 0).entries)
        assert read[: len(longest)] == longest[: len(read)]
        if story.head.epoch in story.head.starts:
            assert len(read) >= len(longest)  # while somebody is taking over, there is a delay
        longest = max(longest, read, key=len)


@given(STEPS, st.integers(0, LENGTH))
def test_reading_on_gives_what_reading_at_once_gives(steps: list[Step], cut: int) -> None:
    story = Story()
    for step in steps:
        story.play(step)
    whole = list(gapless(story.head, story.chunks, 0).entries)
    if cut <= len(whole):
        assert list(gapless(story.head, story.chunks, cut).entries) == whole[cut:]


def test_what_this_version_cannot_read_is_not_read_in_part() -> None:
    story = Story()
    story.play(Write(1, 0, 1))
    newer = replace(story.head, form=NEWEST_FORM + 1)
    with pytest.raises(NewerForm):
        gapless(newer, story.chunks, 0)


@given(STEPS)
@example([Claim(), Start(), Write(1, 0, 2), Write(2, 0, 1)])
def test_when_it_began_is_told_by_a_chunk_that_counts(steps: list[Step]) -> None:
    story = Story()
    for step in steps:
        story.play(step)
    read = gapless(story.head, story.chunks, 0)
    if read.entries:
        assert isinstance(read.entries[0], str)
        assert read.began_at == float(read.entries[0].split(".")[0])
    elif not story.chunks:
        assert read.began_at is None
