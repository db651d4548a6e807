"""A short run of the campaign: no planted secret gets anywhere, and the search would find it."""

from __future__ import annotations

from pathlib import Path

from tests.filtering.campaign import plant
from tests.filtering.reading import PROTOCOLS


async def test_no_planted_secret_reaches_a_reader_a_store_or_a_log(tmp_path: Path) -> None:
    found = await plant(tmp_path, 80, seed=7, filtering="hold", processes="2")
    assert not any(found.leaks.values()), found.leaks
    assert {protocol for protocol in PROTOCOLS if found.redacted[protocol]} == set(PROTOCOLS)


async def test_without_filters_the_search_finds_them_everywhere(tmp_path: Path) -> None:
    found = await plant(tmp_path, 60, seed=7, filtering="off")
    without = {name for name, leaks in found.leaks.items() if not leaks}
    # The reserve of the disk, which may be there by then, holds nothing.
    assert without - {"evenflow.db-reserve"} == {"server.log"}
