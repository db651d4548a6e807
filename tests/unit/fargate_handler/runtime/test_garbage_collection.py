from __future__ import annotations

import ctypes
import gc

import pytest

from evenflow.fargate_handler.runtime.memory import (
    GarbageCollection,
    resident_bytes,
    return_freed_memory,
)
from tests.unit.hand_turned_clock import HandTurnedClock

MIB = 1_048_576


class Memory:
    """What is in use, as a test says, and how often all of it was looked through."""

    def __init__(self) -> None:
        self.used = 100 * MIB
        self.collections = self.of_young = 0
        self.returned = 0

    def return_freed(self) -> None:
        """Instead of glibc's."""
        self.returned += 1

    def collect(self, generation: int = 2) -> int:
        """Instead of `gc.collect`."""
        self.collections += generation == 2
        self.of_young += generation == 0
        return 0


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory()
    monkeypatch.setattr(gc, "collect", memory.collect)
    return memory


def test_young_objects_are_collected_five_times_a_second(memory: Memory) -> None:
    garbage = GarbageCollection(0.0, lambda: memory.used, memory.return_freed)
    clock = HandTurnedClock()
    garbage.follow(clock.delivery)
    clock.turn(2.0)
    assert memory.of_young == pytest.approx(10, abs=1)


def test_a_quiet_node_collects_once_a_minute(memory: Memory) -> None:
    garbage = GarbageCollection(0.0, lambda: memory.used, memory.return_freed)
    for second in range(1, 125):
        garbage.look(float(second), connections=200, answers=0)
    assert memory.collections == 2


@pytest.mark.parametrize(("connections", "answers"), [(0, 1), (201, 0), (100, 101)])
def test_a_busy_node_collects_when_its_memory_has_grown_and_only_then(
    memory: Memory, connections: int, answers: int
) -> None:
    garbage = GarbageCollection(0.0, lambda: memory.used, memory.return_freed)
    seen = []
    for second in range(1, 9):
        memory.used += 32 * MIB
        garbage.look(float(second), connections, answers)
        seen.append(memory.collections)
    assert seen == [0, 0, 0, 1, 1, 1, 1, 2], "each 128 MB"


def test_what_stays_grown_is_not_looked_through_again(memory: Memory) -> None:
    garbage = GarbageCollection(0.0, lambda: memory.used, memory.return_freed)
    memory.used += 500 * MIB
    for second in range(1, 600):
        garbage.look(float(second), connections=5_000, answers=1)
    assert memory.collections == 1


@pytest.mark.parametrize("of_answers", [False, True])
def test_what_a_crowd_has_left_is_returned_soon_also_where_some_are_served(
    memory: Memory, of_answers: bool
) -> None:
    garbage = GarbageCollection(0.0, lambda: memory.used, memory.return_freed)
    seen = list[tuple[int, int]]()
    for second in range(100):
        crowd = 200 if second < 30 else 199
        garbage.look(float(second), *((1, crowd) if of_answers else (crowd, 1)))
        if (memory.collections, memory.returned) not in seen:
            seen.append((memory.collections, memory.returned))
    assert seen == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="it is of glibc")
def test_freed_memory_is_returned() -> None:
    held = [bytearray(8_000) for _ in range(8_192)]
    behind = bytearray(8_000)  # keeps the heap from shrinking by itself
    del held
    before = resident_bytes()
    return_freed_memory()
    assert before - resident_bytes() > 32 * MIB
    assert len(behind) == 8_000


def test_the_memory_in_use_is_read() -> None:
    before = resident_bytes()
    held = bytearray(64 * MIB)
    held[::4096] = b"x" * len(held[::4096])
    assert resident_bytes() - before > 48 * MIB
