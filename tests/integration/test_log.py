"""The log of a real process, where somebody tries to fill it, and where nobody reads it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.full_pipe import FullPipe, full_pipe
from tests.integration.conftest import OpenSession, ServeProcess
from tests.integration.raw_websocket import TEXT, RawWebSocket, client_frame
from tests.integration.server_process import (
    DEFAULTS,
    ROOT,
    STATE_SECONDS,
    clean_environment,
    free_port,
    server_command,
)

_BROKEN = 60


async def test_broken_frames_are_counted_and_hardly_logged(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    server = serve_process()
    session = await opened(server)
    began = time.monotonic()
    for _ in range(_BROKEN):
        async with await RawWebSocket.connect(server.port) as raw:
            assert await raw.handshake(session.token) == 101
            raw.write(client_frame(TEXT, b"{}", masked=False))
            assert await raw.close_code() == 1002
    await server.until_metric("ws_parser_errors_total", _BROKEN)
    said = [line for line in server.log.splitlines() if "no frame" in line]
    left_out = await server.metric('log_lines_dropped_total{reason="repeated"}')
    # Each is closed, too, and that is a kind of its own.
    assert len(said) + left_out >= _BROKEN
    assert 1 <= len(said) <= 1 + time.monotonic() - began
    assert '"level":"ERROR"' not in server.log


async def test_an_answer_and_its_reader_are_lines_of_json_that_tell_no_secret(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    server = serve_process()
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "what is my secret?")
    response_id = next(iter(connection.answers))
    await server.until_logged('"event":"answer"')
    await server.until_logged('"event":"close"')
    lines = [json.loads(line) for line in server.log.splitlines()]
    told = {line["event"]: line for line in lines if "event" in line}
    assert {line["task"] for line in lines} == {told["answer"]["task"]}
    for event in ("answer", "reader"):
        assert told[event]["response_id"] == response_id
    assert told["answer"]["entries_delivered"] == told["answer"]["entries_generated"]
    assert told["answer"]["first_token_ms"] > 0
    assert told["reader"]["left"] == "ended"
    for secret in (session.session_id, session.token, "my secret", answer.text[:20]):
        assert secret not in server.log


@pytest.mark.parametrize(("given", "is_json"), [(None, False), ("json", True)])
def test_at_a_terminal_the_log_is_text_unless_json_is_asked_for(
    given: str | None, is_json: bool
) -> None:
    asked = {} if given is None else {"EVENFLOW_LOG_FORMAT": given}
    port = {"EVENFLOW_HTTP_PORT": str(free_port())}
    ours, its = os.openpty()
    with os.fdopen(ours, "rb") as terminal:
        process = subprocess.Popen(
            server_command(), cwd=ROOT, env=clean_environment(DEFAULTS | port | asked), stderr=its
        )
        os.close(its)
        line = terminal.readline().decode()
        process.terminate()
        while "leaving" not in terminal.readline().decode():
            pass
        assert process.wait(STATE_SECONDS) == 0
    assert line.startswith("{") is is_json
    assert "serving http" in line


class _Unread:
    """A server whose standard error is a full pipe."""

    def __init__(self, pipe: FullPipe) -> None:
        self.port = free_port()
        variables = DEFAULTS | {"EVENFLOW_HTTP_PORT": str(self.port)}
        self.process = subprocess.Popen(
            server_command(), cwd=ROOT, env=clean_environment(variables), stderr=pipe.writing
        )

    def until_it_answers(self) -> None:
        """Wait for `/health`."""
        give_up_at = time.monotonic() + STATE_SECONDS
        while True:
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{self.port}/health", timeout=2
                ) as answer:
                    assert answer.status == 200
                    return
            except OSError:
                assert self.process.poll() is None, "it ended"
                assert time.monotonic() < give_up_at, "it does not answer"
                time.sleep(0.05)


@pytest.fixture
def pipe() -> Iterator[FullPipe]:
    with full_pipe() as pipe:
        yield pipe


@pytest.fixture
def unread(pipe: FullPipe) -> Iterator[_Unread]:
    server = _Unread(pipe)
    yield server
    if server.process.poll() is None:
        server.process.kill()
    server.process.wait()


def test_it_serves_though_nobody_reads_its_log(unread: _Unread) -> None:
    unread.until_it_answers()
    unread.process.send_signal(signal.SIGTERM)
    assert unread.process.wait(STATE_SECONDS) == 0


def test_what_waited_is_written_when_somebody_reads(unread: _Unread, pipe: FullPipe) -> None:
    unread.until_it_answers()
    unread.process.send_signal(signal.SIGTERM)
    lines = pipe.lines(2)
    assert ["serving http" in lines[0], "leaving" in lines[1]] == [True, True]
    assert unread.process.wait(STATE_SECONDS) == 0
