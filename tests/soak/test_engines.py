"""Two real engines behind Evenflow, with a tiny model that is made here: text, counts and errors
are those of the engine.

What is compared with is the engine's stream, since that is what Evenflow reads for a whole answer
too: llama.cpp's Python server streams no counts, and drops characters of several tokens there.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.integration.server_process import ROOT, ServerProcess, clean_environment, free_port

_PYTHON = ROOT / ".build" / "engines" / "bin" / "python"
_START_SECONDS = 100.0
_QUESTIONS = ("hello", "Ein Zug fährt ein", "🚆🚇 поезд")
# Neither takes it: one has no such parameter, the other wants a number.
_REFUSED = {"extra_body": {"min_p": "much"}}

Message = list[dict[str, str]]


@contextmanager
def _engine(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Serve the model in `folder`; the engine's base up to `/v1`, and the model's name there."""
    port = str(free_port())
    where = ["--host", "127.0.0.1", "--port", port]
    if name == "transformers":
        model = str(folder / "transformers")
        command = [str(_PYTHON.parent / "transformers"), "serve", model, *where, "--device", "cpu"]
    else:
        model = "tiny"
        file = str(folder / "tiny.gguf")
        named = ["--model", file, "--model_alias", model, "--n_ctx", "512", "--n_threads", "1"]
        command = [str(_PYTHON), "-m", "llama_cpp.server", *named, *where]
    with (folder / f"{name}.log").open("wb") as log:
        environment = clean_environment({"HF_HUB_OFFLINE": "1"})
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        _wait_for(f"http://127.0.0.1:{port}/openapi.json", process, folder / f"{name}.log")
        yield f"http://127.0.0.1:{port}/v1", model
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + _START_SECONDS
    while time.monotonic() < give_up_at and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError(f"the engine did not start:\n{log.read_text(errors='replace')}")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, in both engines' forms."""
    folder = tmp_path_factory.mktemp("models")
    script = Path(__file__).parent / "engines" / "make_models.py"
    subprocess.run(
        [os.fspath(_PYTHON), os.fspath(script), os.fspath(folder)], check=True, timeout=100
    )
    return folder


class Side:
    """A client of one address."""

    def __init__(self, url: str, model: str) -> None:
        self.client = openai.OpenAI(base_url=url, api_key="sk-anything", max_retries=0)
        self._model = model

    def ask(self, question: str, **options: Any) -> tuple[Any, ...]:
        """Text, reason of the end and the counts; or the error's status and code."""
        messages: Any = [{"role": "user", "content": question}]
        asked = {
            "model": self._model,
            "messages": messages,
            "max_tokens": 60,
            "temperature": 0,
        } | options
        try:
            told = self.client.chat.completions.create(**asked)
            return self._streamed(told) if asked.get("stream") else self._whole(told)
        except openai.APIStatusError as refusal:
            return refusal.status_code, refusal.code

    @staticmethod
    def _whole(told: Any) -> tuple[Any, ...]:
        (choice,) = told.choices
        return choice.message.content, choice.finish_reason, _counted(told.usage)

    @staticmethod
    def _streamed(told: Any) -> tuple[Any, ...]:
        text, reason, usage = "", None, None
        for chunk in told:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
        return text, reason, _counted(usage)


def _counted(usage: Any) -> tuple[int, int] | None:
    return None if usage is None else (usage.prompt_tokens, usage.completion_tokens)


@pytest.fixture(scope="module", params=["transformers", "llama.cpp"])
def both(
    request: pytest.FixtureRequest, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Side]]:
    """The engine asked directly, and through Evenflow."""
    with _engine(request.param, models) as (url, model):
        variables = {
            "EVENFLOW_MODEL": "openai",
            "EVENFLOW_MODEL_URL": url,
            "EVENFLOW_MODEL_NAME": model,
        }
        server = ServerProcess(
            tmp_path_factory.mktemp("server") / "server.log", variables
        ).wait_until_serving()
        sides = {"direct": Side(url, model), "through": Side(f"{server.http_url}/v1", model)}
        try:
            yield sides
        finally:
            for side in sides.values():
                side.client.close()
            server.stop()


_STREAM = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("question", _QUESTIONS)
@pytest.mark.parametrize("options", [{}, {"stop": ["\n"]}, {"max_tokens": 1}], ids=str)
def test_an_answer(both: dict[str, Side], question: str, options: dict[str, Any]) -> None:
    direct = both["direct"].ask(question, **_STREAM, **options)
    assert len(direct) == 3, f"the engine itself refuses: {direct}"
    assert both["through"].ask(question, **_STREAM, **options) == direct
    assert both["through"].ask(question, **options) == direct


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error(both: dict[str, Side], stream: bool) -> None:
    status, code = both["direct"].ask("x", stream=stream, **_REFUSED)
    told_status, told_code = both["through"].ask("x", stream=stream, **_REFUSED)
    assert told_status == (
        502 if status >= 500 else status
    )  # a failure behind a gateway is the gateway's 502
    assert code in (None, told_code)
