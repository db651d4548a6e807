"""The catalogue of attacks, and which of them share a server."""

from __future__ import annotations

from tests.attack.attack import Attack, Judged, Scene, attack
from tests.attack.catalogue import ATTACKS
from tests.attack.measuring import groups
from tests.attack.plan import Plan


def _attack(name: str, judged: Judged, *, hostile_model: bool = False) -> Attack:
    @attack(name, judged, hostile_model=hostile_model)
    async def strike(scene: Scene) -> None:
        """What it does.

        And more.
        """

    return strike


def _names(attacks: list[Attack], plan: Plan) -> list[list[str]]:
    return [[it.name for it in group] for group in groups(attacks, plan)]


def test_each_attack_is_explained_in_a_line() -> None:
    assert _attack("a", Judged.ALONE).about == "What it does."
    assert [name for name, it in ATTACKS.items() if not it.about.endswith(".")] == []


def test_attacks_judged_by_readers_have_a_server_each_in_the_long_form() -> None:
    attacks = [_attack("a", Judged.BY_READERS), _attack("b", Judged.BY_READERS)]
    assert _names(attacks, Plan()) == [["a"], ["b"]]
    assert _names(attacks, Plan.short()) == [["a", "b"]]


def test_attacks_judged_by_their_outcome_share_a_server_of_their_needs() -> None:
    attacks = [
        _attack("a", Judged.BY_OUTCOME),
        _attack("b", Judged.ALONE),
        _attack("c", Judged.BY_OUTCOME, hostile_model=True),
        _attack("d", Judged.BY_OUTCOME),
        _attack("e", Judged.ALONE),
    ]
    assert _names(attacks, Plan()) == [["a", "d"], ["b"], ["c"], ["e"]]
