"""`evenflow doctor`: what it prints, its exit status, and what it can't ask."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHeader, InvalidStatus
from websockets.http11 import Response

from evenflow.__main__ import main
from evenflow.doctor.diagnosis import Examination, diagnose
from evenflow.doctor.evidence import observe
from evenflow.doctor.hop_faults import (
    FOREIGN,
    HOP_FAULTS,
    IDLE,
    NO_WEBSOCKETS,
    SUBPROTOCOL,
    HopFault,
)
from evenflow.doctor.report import as_text
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.functions.canary.front_door import HttpAnswer
from tests.integration.chat_client import demo
from tests.integration.conftest import ServeProcess
from tests.integration.doctor.proxies import haproxy
from tests.integration.server_process import ROOT, ServerProcess, free_port

QUICK = ("--idle", "0.5", "--question", demo(tokens=12, gap_ms=50))
KEY = "key-of-the-public-tenant-0123456789"


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess) -> ServerProcess:
    """A server that is open to all, with a model of another name."""
    return serve_module(models="best=")


def test_a_server_that_is_well(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    """A model can't be silent on demand: two checks are reported as not tested."""
    assert main(["doctor", server.http_url, *QUICK]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].startswith(server.http_url)
    assert printed.endswith("nothing is wrong\n")
    assert printed.count("\n✓") == 14
    assert printed.count("\n!") == 1
    assert "! idle event stream   only the demo model can be silent on demand" in printed


@pytest.mark.parametrize(
    "question",
    [
        demo(tokens=24, gap_ms=60, bursty=True),
        demo(tokens=24, gap_ms=0, first_token_ms=1_500),
        demo(tokens=4, gap_ms=500),
        demo(tokens=10, gap_ms=150, jitter_ms=140),
    ],
)
def test_a_models_own_pace_is_not_blamed_on_a_hop(server: ServerProcess, question: str) -> None:
    diagnosis = diagnose(server.http_url, Examination(question=question, idle_seconds=0.5))
    assert diagnosis.is_well, as_text(diagnosis, None)
    assert diagnosis.faults == []


def test_what_the_server_does_itself_is_told_from_what_a_hop_does(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("haproxy") is None:
        pytest.skip("needs haproxy: apt-get install haproxy")
    with haproxy(server.port, tmp_path, "http-request del-header last-event-id") as url:
        arguments = ["--direct", server.http_url, "--origin", "http://page.example"]
        assert main(["doctor", url, *QUICK, *arguments]) == 1
        printed = capsys.readouterr().out
        assert main(["doctor", url, *QUICK, *arguments, "--json"]) == 1
        described = json.loads(capsys.readouterr().out)
    lines = {line[2:].split("  ")[0]: line for line in printed.splitlines() if line}
    assert lines["Last-Event-ID"].endswith("[last-event-id] - not so directly: a hop does it")
    assert lines["CORS"].endswith("[cors] - the same directly: it is no hop's")
    assert "  haproxy: no `http-request del-header last-event-id`" in printed
    assert "2 of 16 checks found something wrong" in printed
    wrong = {
        name: [check["fault"] for check in found["checks"] if check["mark"] == "✗"]
        for name, found in described.items()
    }
    assert wrong == {"proxied": ["last-event-id", "cors"], "direct": ["cors"]}


def test_who_has_seen_enough_need_not_wait(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "evenflow", "doctor", server.http_url, "--idle", "600"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"keeping connections silent for 600 s")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", f"http://127.0.0.1:{free_port()}", *QUICK]) == 2
    assert "can't be reached: [Errno 111]" in capsys.readouterr().err


def test_a_tenants_key_is_needed(
    serve_process: ServeProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = serve_process(tenant_keys=json.dumps({"public": KEY}))
    monkeypatch.delenv("EVENFLOW_TENANT_KEY", raising=False)
    assert main(["doctor", server.http_url, *QUICK]) == 2
    assert "401 tenant_key_invalid: " in (message := capsys.readouterr().err)
    assert message.endswith("set EVENFLOW_TENANT_KEY to a tenant's key\n")
    monkeypatch.setenv("EVENFLOW_TENANT_KEY", KEY)
    assert main(["doctor", server.http_url, *QUICK]) == 0


def test_a_key_that_no_header_takes_is_not_shown(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as two lines of a file. White space around a key is cut."""
    monkeypatch.setenv("EVENFLOW_TENANT_KEY", f"{KEY}\r{KEY}")
    assert main(["doctor", server.http_url, "--json", *QUICK]) == 2
    printed = capsys.readouterr()
    assert "EVENFLOW_TENANT_KEY can't be sent" in printed.err
    assert KEY not in printed.out + printed.err


def test_a_handshake_that_is_sent_elsewhere(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No browser follows it."""
    if shutil.which("haproxy") is None:
        pytest.skip("needs haproxy: apt-get install haproxy")
    redirect = "http-request redirect code 308 location /ws?moved if { path /ws } !{ query moved }"
    with haproxy(server.port, tmp_path, redirect) as url:
        assert main(["doctor", url, *QUICK]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"✗ WebSocket +308 to /ws\?moved \[redirect\]", printed), printed


def test_no_token_is_shown() -> None:
    """A hop may send back all that the handshake offered."""

    def shake_hands() -> str:
        raise InvalidHeader("Sec-WebSocket-Protocol", "multiple values: v1, bearer.abc.def-_1")

    seen = observe("handshake", shake_hands)
    assert seen.fault is SUBPROTOCOL
    assert "multiple values: v1, bearer.…" in seen.seen
    assert "abc" not in seen.seen


def test_an_address_without_tls(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", server.http_url.replace("http", "https"), *QUICK]) == 1
    assert "✗ address  SSLError: " in (printed := capsys.readouterr().out)
    assert "[tls] No secure connection opens." in printed


def test_a_name_that_a_loopback_server_does_not_answer_to(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("haproxy") is None:
        pytest.skip("needs haproxy: apt-get install haproxy")
    with haproxy(server.port, tmp_path, "http-request set-header host chat.example") as url:
        assert main(["doctor", url, *QUICK]) == 1
    assert "403 host_not_allowed: " in (printed := capsys.readouterr().out)
    assert "EVENFLOW_ALLOWED_HOSTS" in printed


@pytest.mark.parametrize(
    ("status", "body", "mark", "fault"),
    [
        (429, {"error": {"code": "session_connections", "message": "too many"}}, "!", None),
        (503, {"error": {"code": "node_full", "message": "full"}}, "✗", None),
        (403, {"error": {"code": "not_permitted", "message": "no"}}, "✗", None),
        (429, {}, "✗", FOREIGN),
        (504, {}, "✗", IDLE),
    ],
)
def test_what_evenflow_refuses_itself_is_no_hops_fault(
    status: int, body: object, mark: str, fault: HopFault | None
) -> None:
    def call() -> str:
        HttpAnswer(status, Message(), json.dumps(body).encode()).expect(200)
        return ""

    def shake_hands() -> str:
        response = Response(status, "", Headers(), json.dumps(body).encode())
        raise InvalidStatus(response)

    called, shaken = observe("call", call), observe("handshake", shake_hands)
    assert (called.mark, called.fault) == (mark, fault)
    assert (shaken.mark, shaken.fault) == (mark, NO_WEBSOCKETS if fault is FOREIGN else fault)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server with this one answer. Yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                # The rest of the request: unread, it would reset the connection.
                while connection.recv(65_536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"SSH-2.0-\x1b[2J\r\n", "✗ address  BadStatusLine: SSH-2.0-?[2J [foreign]"),
        (
            b"HTTP/1.1 511 Log in\r\nContent-Length: 0\r\nContent-Type: text/html\r\n\r\n",
            "✗ address  511 that is not Evenflow's, text/html [foreign]",
        ),
        (
            b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nContent-Type: text/html\r\n\r\nhi",
            "✗ address  201 that is not Evenflow's, text/html [foreign]",
        ),
        (
            b"HTTP/1.1 201 Created\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200_000,
            "✗ address  201 that is not Evenflow's, text/plain [foreign]",
        ),
    ],
)
def test_somebody_else_answers(
    answer: bytes, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(answer) as url:
        assert main(["doctor", url, *QUICK]) == 1
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chat.example.com"], "must be https://host or http://host:port"),
        (["http://127.0.0.1", "--idle", "0"], "'0' must be seconds, more than 0 and at most 3600"),
        (["http://127.0.0.1", "--idle", "long"], "'long' must be seconds"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_settings_of_the_server_that_are_named_exist() -> None:
    named = re.findall(
        r"EVENFLOW_([A-Z_]+)", " ".join(" ".join(one.settings.values()) for one in HOP_FAULTS)
    )
    assert named
    assert [name for name in named if name.lower() not in HandlerSettings.model_fields] == []
