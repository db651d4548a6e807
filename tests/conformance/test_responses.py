"""OpenAI's SDK over the Responses API: what it saw, and what the model's server was asked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import ServeProcess, _serving
from tests.integration.server_process import clean_environment
from tests.integration.stock_clients.clients import QUIET, node, python_of
from tests.integration.stock_clients.conftest import running_upstream
from tests.integration.stock_clients.script import SILENCE_SECONDS
from tests.integration.stock_clients.upstream import MODEL, ScriptedUpstream

_FOLDER = Path(__file__).parent
_CLIENT_SECONDS = 110
_TEXT = "A train enters a tunnel: Zug 🚆, поезд."
_COUNTED = {"tokens": [30, 12]}
_MESSAGE = {"status": "completed", "text": _TEXT, "items": ["message"], **_COUNTED}
_EVENTS = [
    *("response.created", "response.in_progress", "response.output_item.added"),
    *("response.content_part.added", "response.output_text.delta", "response.output_text.done"),
    *("response.content_part.done", "response.output_item.done", "response.completed"),
]
_REASONED = _MESSAGE | {"items": ["reasoning", "message"]}
_THOUGHT = "Trains, tunnels … I see. "
_CALLS = [
    ["get_weather", '{"city": "Zürich"}', "call_abc123"],
    ["get_time", '{"city": "Oslo"}', "call_def456"],
]

SEEN: dict[str, Any] = {
    "whole": _MESSAGE,
    "stream": _MESSAGE | {"types": _EVENTS, "deltas": _TEXT, "grow": True},
    "reasoning": _REASONED | {"said": _THOUGHT, "summary": _THOUGHT},
    "reasoning_given_back": _REASONED,
    "refusal": {"said": "I cannot help with that.", "refusal": "I cannot help with that."},
    "tools": {
        "calls": _CALLS,
        "said": '{"city": "Zürich"}{"city": "Oslo"}',
        "answer": _MESSAGE | {"text": "Sunny in Zürich, and noon in Oslo."},
    },
    "structured": {"name": "Ada Lovelace", "age": 36},
    "incomplete": ["incomplete", "max_output_tokens"],
    "logprobs": [-0.5] * 5,
    "conversation": {
        "second": _MESSAGE | {"text": "The second answer."},
        "previous": True,
        "kept": True,
        "instructions": ["Be brief.", None],
    },
    "cut": {"before": "A train ", "text": _TEXT, "type": "response.completed", "behind": 0},
    "background": {
        "running": ["in_progress"],
        "ended": _MESSAGE,
        "background": True,
    },
    "cancelled": ["cancelled", "cancelled"],
    "aborted": "response_not_found",
    "deleted": "response_not_found",
    "input_items": [["input_text", "input_image"]],
    "repeated": True,
}
RAISED = {
    "too_long": ("BadRequestError", 400, "context_length_exceeded"),
    "too_long_streamed": ("BadRequestError", 400, "context_length_exceeded"),
    "hosted_tool": ("BadRequestError", 400, "unsupported_value"),
    "unknown_previous": ("BadRequestError", 400, "previous_response_not_found"),
}


@dataclass(frozen=True)
class Asked:
    """A server, and the model's server behind it."""

    url: str
    upstream: ScriptedUpstream

    def saw(self, client: str, file: str, scenarios: list[str]) -> dict[str, Any]:
        """What a client saw, by scenario."""
        interpreter = node() if file.endswith(".mjs") else python_of("clients")
        folder = "javascript" if file.endswith(".mjs") else "python"
        told = {"client": client, "url": self.url, "model": MODEL, "scenarios": scenarios}
        ran = subprocess.run(
            [os.fspath(interpreter), os.fspath(_FOLDER / folder / file), json.dumps(told)],
            env=clean_environment(QUIET),
            capture_output=True,
            timeout=_CLIENT_SECONDS,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        saw: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return saw


@pytest.fixture(scope="module")
def serve_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Start processes for all tests of this module."""
    yield from _serving(tmp_path_factory)


@pytest.fixture(scope="module")
def asked(serve_module: ServeProcess) -> Iterator[Asked]:
    with running_upstream() as upstream:
        server = serve_module(
            model="openai",
            model_url=upstream.url,
            model_name=MODEL,
            sse_heartbeat_seconds=SILENCE_SECONDS / 5,
        )
        yield Asked(f"{server.http_url}/v1", upstream)


@pytest.fixture(scope="module")
def openai_saw(asked: Asked) -> Callable[[str], Any]:
    saw = asked.saw("openai", "responses_openai.py", [*SEEN, *RAISED, "cut_anywhere"])
    return saw.__getitem__


@pytest.mark.parametrize("scenario", SEEN)
def test_openai_s_sdk_sees_the_answer(openai_saw: Callable[[str], Any], scenario: str) -> None:
    assert openai_saw(scenario) == SEEN[scenario]


@pytest.mark.parametrize("scenario", RAISED)
def test_openai_s_sdk_raises(openai_saw: Callable[[str], Any], scenario: str) -> None:
    saw = openai_saw(scenario)
    assert (saw["raised"], saw["status"], saw["code"]) == RAISED[scenario]


def test_a_stream_that_is_cut_behind_any_event_goes_on_with_the_next(
    openai_saw: Callable[[str], Any],
) -> None:
    events, the_same = openai_saw("cut_anywhere")
    assert events > 10
    assert the_same
