"""What kind of reader a client is, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Transport(StrEnum):
    """How a reader reads."""

    V1 = "v1"
    COMPACT = "compact"
    SSE = "sse"
    POLL = "poll"

    @property
    def is_websocket(self) -> bool:
        """Whether it is one of the two."""
        return self in (Transport.V1, Transport.COMPACT)


# Most people read over a WebSocket; each of the others often enough that a fault meets a hundred of
# them.
_SHARES = {Transport.V1: 0.40, Transport.COMPACT: 0.30, Transport.SSE: 0.18, Transport.POLL: 0.12}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One client.

    Args:
        transport: how it begins.
        switches: whether it changes transport each time it moves.
        moves_every: it makes a new connection about so often, in seconds; None: never by itself.
        drops_cookie: whether it then forgets which node it was with.
        tabs: further readers of the same answer.
        slow: it stops reading its socket for seconds at a time, and its tokens are long ones.
        replays: it sends its message again while it is answered.
        questions: how many, one after another.
        acknowledges: it says what it has.
    """

    transport: Transport
    switches: bool = False
    moves_every: float | None = None
    drops_cookie: bool = False
    tabs: int = 0
    slow: bool = False
    replays: bool = False
    questions: int = 1
    acknowledges: bool = False


def any_transport(random: Random) -> Transport:
    """One of the four."""
    return random.choices(list(_SHARES), list(_SHARES.values()))[0]


def any_behaviour(random: Random) -> Behaviour:
    """A client of the mix."""
    transport = any_transport(random)
    slow = transport.is_websocket and random.random() < 0.03
    moves = not slow and random.random() < 0.15
    return Behaviour(
        transport=transport,
        switches=moves and random.random() < 0.5,
        moves_every=random.uniform(4, 12) if moves else None,
        drops_cookie=random.random() < 0.5,
        tabs=random.choice((1, 2)) if random.random() < 0.08 else 0,
        slow=slow,
        replays=random.random() < 0.05,
        questions=2 if random.random() < 0.2 else 1,
        acknowledges=random.random() < 0.3,
    )
