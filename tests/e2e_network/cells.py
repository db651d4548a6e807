"""What is tried: every outage of the network, at every page, by every transport, in both browsers;
and a selection in which each pair of values meets once at least.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from enum import Enum
from itertools import combinations, product
from random import Random

SECONDS = (1, 2, 5, 20, 60, 300)
HAND_TURNED = 300
"""An outage of so many seconds is on the hand-turned clock."""


_BUTTON_SECONDS = 20
_SEED = 40


class Outage(Enum):
    """What the network does."""

    RESET = "reset"
    """Connections are reset, and so is each new one."""
    BLACK_HOLE = "black hole"
    """Packets vanish. Afterwards they arrive, when TCP sends them again."""
    HALF_OPEN = "half-open"
    """Packets vanish. Afterwards connections of before are dead, and nobody learns it."""
    SLOW = "1 KB/s"
    """Each connection is given a kilobyte a second."""
    PORTAL = "portal"
    """Connections are reset; new ones lead to the login page of a Wi-Fi."""


class Sign(Enum):
    """How the page learns that the network is back."""

    NONE = "no event"
    """By itself: the browser has believed all the time that it has one."""
    EVENT = "event"
    """The browser finds out when it goes, and when it comes back."""
    BUTTON = "button"
    """The reader presses *Reconnect now*. The browser knows nothing."""


BACK_SECONDS = {Sign.NONE: 2.0, Sign.EVENT: 0.3, Sign.BUTTON: 0.3}
"""Within so many, text is on the screen again in 95 of 100 cases."""
MOST_TIMES = 3
"""A run fails beyond so many times as much: machines are busy."""


class Transport(Enum):
    """How an answer travels, which the network decides: it refuses WebSockets, or besides holds
    event streams back.
    """

    WEBSOCKET = "websocket"
    SSE = "sse"
    POLL = "long-poll"


class Page(Enum):
    """What the reader has before them."""

    ELEMENT = "element"
    CLIENT = "client"
    USE_CHAT = "useChat"


class Browser(Enum):
    """By puppeteer's names."""

    CHROMIUM = "chrome"
    FIREFOX = "firefox"


@dataclass(frozen=True)
class Cell:
    """One outage in the middle of an answer."""

    seconds: int
    outage: Outage
    sign: Sign
    transport: Transport
    page: Page
    browser: Browser

    def __str__(self) -> str:
        return (
            f"{self.seconds:3d} s  {self.outage.value:10}  {self.sign.value:8}  "
            f"{self.transport.value:9}  "
            f"{self.page.value:7}  {self.browser.name.lower():8}"
        )


def all_cells() -> list[Cell]:
    """Each that there is."""
    every = product(SECONDS, Outage, Sign, Transport, Page, Browser)
    return [cell for values in every if _can_be(cell := Cell(*values))]


def _can_be(cell: Cell) -> bool:
    """AI SDK's chat reads by event streams alone. The element has the button, once it has tried in
    vain for a while.
    """
    is_tried_in_vain = cell.seconds >= _BUTTON_SECONDS and cell.outage is not Outage.SLOW
    has_button = cell.page is Page.ELEMENT and is_tried_in_vain
    return (cell.page is not Page.USE_CHAT or cell.transport is Transport.SSE) and (
        cell.sign is not Sign.BUTTON or has_button
    )


def pairwise(cells: Iterable[Cell]) -> list[Cell]:
    """Few of them, in which each pair of values is that is in any of them: always the next one that
    has most of the pairs which are missing. The same each time.
    """
    shuffled = list(cells)
    Random(_SEED).shuffle(shuffled)  # else those that come first would fill all that is free
    pairs_of = {cell: pairs(cell) for cell in shuffled}
    missing = {pair for found in pairs_of.values() for pair in found}
    chosen = []
    while missing:
        best = max(pairs_of, key=lambda cell: len(pairs_of[cell] & missing))
        chosen.append(best)
        missing -= pairs_of[best]
    return chosen


def pairs(cell: Cell) -> frozenset[object]:
    """Each two of its values, with their places."""
    return frozenset(combinations(enumerate(astuple(cell)), 2))
