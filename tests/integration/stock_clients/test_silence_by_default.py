"""With the defaults, a model is silent for longer than the server is: OpenAI's clients, and an
AI SDK, wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.conftest import ServeProcess
from tests.integration.stock_clients.clients import CLIENTS
from tests.integration.stock_clients.conftest import Run, Sides, both_sides, run_client

pytestmark = pytest.mark.xdist_group("silence")
# Side by side, since each takes 16 s.
_ASKED = [
    ("openai", "long_silence_first"),
    ("openai", "long_silence_within"),
    ("openai", "long_silence_whole"),
    ("openai-js", "long_silence_first"),
    ("openai-js", "long_silence_whole"),
    ("ai-sdk", "long_silence_first"),
]


@pytest.fixture(scope="module")
def sides_with_defaults(serve_module: ServeProcess) -> Iterator[Sides]:
    """Evenflow with its own heartbeat."""
    with both_sides(serve_module) as both:
        yield both


@pytest.fixture(scope="module")
def ran(sides_with_defaults: Sides) -> dict[tuple[str, str], dict[str, Run]]:
    """What each of them saw."""

    def run(asked: tuple[str, str]) -> dict[str, Run]:
        return run_client(CLIENTS[asked[0]], sides_with_defaults, [asked[1]])

    with ThreadPoolExecutor(len(_ASKED)) as pool:
        return dict(zip(_ASKED, pool.map(run, _ASKED), strict=True))


@pytest.mark.parametrize("asked", _ASKED, ids="-".join)
def test_a_long_silence(ran: dict[tuple[str, str], dict[str, Run]], asked: tuple[str, str]) -> None:
    direct, through = (ran[asked][side].saw[asked[1]] for side in ("direct", "through"))
    assert "raised" not in direct, direct
    assert through == direct
