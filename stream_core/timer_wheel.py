"""A wheel of short slots: thousands of timers for the price of one.

Slots are numbered by time (`slot = seconds / width`), so the wheel needs no clock: the caller says how far to turn it.
"""

from __future__ import annotations

from typing import Protocol


class Due(Protocol):
    """Something that can stand in a slot."""

    def on_due(self, slot: int) -> None:
        """Called when the wheel reaches the slot (`slot`, which may be late)."""


class TimerWheel:
    """Entries by slot. An entry stands where it was put until the wheel gets there; one that no longer matters ignores
    the call, which is cheaper than taking it out.
    """

    __slots__ = ("_done", "_slots", "position")

    def __init__(self, position: int = 0) -> None:
        self._slots: dict[int, list[Due]] = {}
        self._done = 0  # entries of the current slot that were called
        self.position = position
        """The slot that is being emptied: everything before it is."""

    def put(self, entry: Due, slot: int) -> None:
        """Call `entry.on_due` when the wheel reaches `slot`; a slot that has passed means the current one."""
        slot = max(slot, self.position)
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = [entry]
        else:
            entries.append(entry)

    def turn(self, target: int, most: int) -> bool:
        """Call what is due up to and including slot `target`, at most `most` entries.

        Returns whether the wheel got there: False means that there is more to do, and the caller may do something
        else first.
        """
        slots = self._slots
        while self.position <= target:
            entries = slots.get(self.position)
            if entries is not None:
                most -= self._empty(entries, most)
                if self._done < len(entries):
                    return False
                del slots[self.position]
                self._done = 0
            self.position += 1
        return True

    def _empty(self, entries: list[Due], most: int) -> int:
        """Call the current slot's entries, at most so many; how many were called."""
        slot, done, began = self.position, self._done, self._done
        try:
            # The list may grow while it is walked.
            while done < len(entries) and done - began < most:
                entry = entries[done]
                done += 1
                entry.on_due(slot)
        finally:
            self._done = done
        return done - began
