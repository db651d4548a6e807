"""httpx-sse reads the events of a chat message, with a silence of many heartbeats in their
middle.
"""

from __future__ import annotations

from tests.integration.stock_clients.clients import HTTPX_SSE
from tests.integration.stock_clients.conftest import Sides, run_client
from tests.integration.stock_clients.script import SCRIPT, Answer


def test_httpx_sse_reads_our_own_events(sides: Sides) -> None:
    saw = run_client(HTTPX_SSE, {"through": sides["through"]}, ["own_events"])["through"].saw[
        "own_events"
    ]
    (scripted,) = SCRIPT["silence-within"]
    assert isinstance(scripted, Answer)
    assert saw == {
        "text": "".join(scripted.text),
        "types": ["chat.response.completed", "chat.response.delta"],
    }
