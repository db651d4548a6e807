"""What an attack is, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_bound import MEBIBYTE, bounds
from tests.attack.plan import Plan
from tests.attack.target import Target
from tests.attack.wire import Client

_BESIDE_MIB = 64.0
"""For connections, and what is on its way."""
_STORES_MIB = 64.0
"""For what is accepted within some seconds."""


class Judged(StrEnum):
    """By what an attack is judged."""

    BY_READERS = "readers"
    """What honest readers and the memory notice of it."""
    BY_OUTCOME = "outcome"
    """That what must not happen doesn't; the server is shared with others of its settings."""
    ALONE = "alone"
    """Likewise, on a server of its own, which it may end."""


@dataclass
class Scene:
    """An attack in progress.

    Args:
        attacker: opens the attacker's connections, from an address of its own on this machine.
        stranger: opens those of an attacker elsewhere, whose address a proxy of this machine names.
        other: likewise, for an honest client that the attack is aimed at, or a proxy of this
            machine that an attacker calls through.
    """

    plan: Plan
    target: Target
    attacker: Client
    stranger: Client
    other: Client
    deeds: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def did(self, deed: str) -> None:
        """Note what the attacker did."""
        self.deeds.append(deed)

    def must(self, met: bool, otherwise: str) -> None:
        """Fail the attack, unless this is met."""
        if not met:
            self.misses.append(otherwise)

    def scaled(self, count: int) -> int:
        """Of so many in the long form."""
        return max(1, round(count * self.plan.share))


Strike = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True)
class Attack:
    """One attack.

    Args:
        fills: the limits that it fills. What they take may come on top of the memory at its peak.
        stores_mib: how much the store may grow on the disk.
        short: whether it is part of the short form.
        hostile_model: whether the model is `tests.attack.hostile_model`, not the demo model.
    """

    name: str
    about: str
    strike: Strike
    judged: Judged
    short: bool
    fills: tuple[str, ...]
    stores_mib: float
    settings: Mapping[str, str]
    hostile_model: bool

    @property
    def grows_mib(self) -> float:
        """By how much it may raise the memory."""
        bounded = bounds(Limits())
        return _BESIDE_MIB + sum(bounded[name] for name in self.fills) / MEBIBYTE


def attack(
    name: str,
    judged: Judged = Judged.BY_READERS,
    *,
    short: bool = False,
    fills: tuple[str, ...] = (),
    stores_mib: float = _STORES_MIB,
    settings: Mapping[str, str] | None = None,
    hostile_model: bool = False,
) -> Callable[[Strike], Attack]:
    """Make an attack of what strikes. The first line of its docstring explains it."""

    def of(strike: Strike) -> Attack:
        about = (strike.__doc__ or "").strip().partition("\n\n")[0]
        return Attack(
            name,
            " ".join(about.split()),
            strike,
            judged,
            short,
            fills,
            stores_mib,
            settings or {},
            hostile_model,
        )

    return of
