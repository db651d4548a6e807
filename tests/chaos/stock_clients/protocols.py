"""The protocols, and the clients that people have for them already."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.integration.server_process import ROOT
from tests.integration.stock_clients.clients import node, python_of

_PYTHON = Path(__file__).parent / "python"
# Where the clients for JavaScript are installed.
_JAVASCRIPT = ROOT / "tests" / "conformance" / "javascript" / "chaos"


@dataclass(frozen=True)
class Protocol:
    """A protocol under chaos.

    Args:
        driver: the file that asks by its stock clients.
        ways: how its clients come back after a break. They take turns.
    """

    name: str
    driver: str
    ways: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """What runs the driver."""
        if self.driver.endswith(".mjs"):
            return [os.fspath(node()), os.fspath(_JAVASCRIPT / self.driver)]
        return [os.fspath(python_of("clients")), os.fspath(_PYTHON / self.driver)]


PROTOCOLS = (
    Protocol("chat-completions", "chat_completions.py", ("replay", "Last-Event-ID")),
    Protocol("responses", "openai_responses.py", ("starting_after", "background")),
    Protocol("ai-sdk", "ai_sdk.mjs", ("resumeStream", "reload")),
    Protocol("agui", "agui.mjs", ("metadata", "replay")),
    Protocol("anthropic", "anthropic_messages.py", ("replay",)),
    Protocol("durable-streams", "durable_streams.mjs", ("sse", "long-poll")),
)
