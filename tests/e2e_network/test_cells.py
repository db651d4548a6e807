"""The selection has each pair of values, in few cells."""

from __future__ import annotations

from tests.e2e_network.cells import (
    HAND_TURNED,
    SECONDS,
    Cell,
    Outage,
    Page,
    Sign,
    Transport,
    all_cells,
    pairs,
    pairwise,
)


def test_each_pair_of_values_that_can_meet_meets() -> None:
    cells = all_cells()
    chosen = pairwise(cells)
    assert {pair for cell in chosen for pair in pairs(cell)} == {
        pair for cell in cells for pair in pairs(cell)
    }
    # Each length meets each outage, so there is none with fewer than thirty.
    assert len(SECONDS) * len(Outage) <= len(chosen) <= 45
    assert pairwise(cells) == chosen


def test_a_cell_is_none_that_cannot_be() -> None:
    cells = all_cells()
    assert len(set(cells)) == len(cells)
    assert {cell.transport for cell in cells if cell.page is Page.USE_CHAT} == {Transport.SSE}
    with_button = [cell for cell in cells if cell.sign is Sign.BUTTON]
    assert {cell.page for cell in with_button} == {Page.ELEMENT}
    assert {cell.seconds for cell in with_button} == {20, 60, HAND_TURNED}


def test_a_pair_knows_its_places() -> None:
    one, other = all_cells()[:2]
    assert isinstance(one, Cell)
    assert len(pairs(one)) == len(pairs(other)) == 15
    assert len(pairs(one) & pairs(other)) == 10
