"""How the end of a WebSocket is counted and logged, in whichever protocol it is."""

from __future__ import annotations

import pytest

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.http.routes import RESPONSES_WEBSOCKET
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from evenflow.stream_core.records.connection_records import CloseRecord
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import SocketInMemory, connected
from tests.unit.settle import settle

_PATHS = ("/ws", "/realtime", RESPONSES_WEBSOCKET.path)


def _frame(opcode: int, payload: bytes) -> bytes:
    """A client's frame with a small payload."""
    return bytes([0x80 | opcode, 0x80 | len(payload)]) + bytes(4) + payload


class Ends:
    """What was counted and logged of one connection."""

    def __init__(self, gateway: Gateway, log: pytest.LogCaptureFixture) -> None:
        found = [made.msg for made in log.records]
        (self.line,) = [line for line in found if isinstance(line, CloseRecord)]
        self.said = (self.line.code, self.line.by)
        (((self.label,), count),) = gateway.metrics.labelled(
            catalogue.CONNECTIONS_CLOSED
        ).by_labels.items()
        assert count == 1
        assert gateway.metrics.distribution(catalogue.CONNECTION_AGE).count == 1
        self.resets = gateway.metrics.ratio(catalogue.RESET_RATE).part
        self.dead = gateway.metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE).part


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO")
    return caplog


async def _lost(sock: SocketInMemory) -> None:
    sock.lose()
    await settle()


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize(
    ("payload", "code", "label"),
    [
        (b"\x03\xe8", 1000, "1000"),
        (b"\x03\xe9", 1001, "1001"),
        (b"", 1005, "1005"),
        (b"\x0f\x9f", 3999, "other"),
    ],
)
async def test_the_clients_close_frame_is_its_code(
    log: pytest.LogCaptureFixture, path: str, payload: bytes, code: int, label: str
) -> None:
    gateway = Gateway()
    sock = connected(gateway, path)
    sock.receive(_frame(Opcode.CLOSE, payload))
    await _lost(sock)
    ends = Ends(gateway, log)
    assert (ends.said, ends.label, ends.resets) == ((code, "client"), label, 0)
    assert sock.sent.endswith(payload)


@pytest.mark.parametrize("path", _PATHS)
async def test_a_socket_that_breaks_is_a_reset_and_no_clean_close(
    log: pytest.LogCaptureFixture, path: str
) -> None:
    gateway = Gateway()
    await _lost(connected(gateway, path))
    ends = Ends(gateway, log)
    assert (ends.said, ends.label, ends.resets) == ((1006, "client"), "1006", 1)
    assert (ends.line.tenant, ends.line.agent) == (CHANNEL.tenant, CHANNEL.agent)
    assert ends.line.session == CHANNEL.session_digest


@pytest.mark.parametrize("path", _PATHS)
async def test_what_the_parser_refuses_has_the_code_that_the_client_was_given(
    log: pytest.LogCaptureFixture, path: str
) -> None:
    gateway = Gateway(Limits(message_bytes=1_024))
    sock = connected(gateway, path)
    head = bytes([0x81, 0xFF]) + (1_000_000_000).to_bytes(8, "big") + bytes(4)
    sock.receive(head + bytes(4_096))
    await _lost(sock)
    assert b"\x03\xf1" in sock.sent
    ends = Ends(gateway, log)
    assert (ends.said, ends.label, ends.resets) == ((1009, "server"), "1009", 0)


@pytest.mark.parametrize("path", _PATHS)
async def test_what_is_no_frame_is_1002(log: pytest.LogCaptureFixture, path: str) -> None:
    gateway = Gateway()
    sock = connected(gateway, path)
    sock.receive(_frame(0xB, b""))
    await _lost(sock)
    ends = Ends(gateway, log)
    assert (ends.said, ends.label) == ((1002, "server"), "1002")


@pytest.mark.parametrize("path", _PATHS)
async def test_the_first_close_is_the_one_that_is_told(
    log: pytest.LogCaptureFixture, path: str
) -> None:
    gateway = Gateway()
    sock = connected(gateway, path)
    (connection,) = gateway.registry
    connection.close(4008, "too slow")
    connection.close(1001, "leaving")
    await _lost(sock)
    ends = Ends(gateway, log)
    assert (ends.said, ends.label, ends.resets, ends.dead) == ((4008, "server"), "4008", 0, 0)


@pytest.mark.parametrize("path", _PATHS)
async def test_a_lost_heartbeat_is_4010_and_counted_as_dead(
    log: pytest.LogCaptureFixture, path: str
) -> None:
    gateway = Gateway()
    sock = connected(gateway, path)
    gateway.clock.turn(100.0)
    await _lost(sock)
    ends = Ends(gateway, log)
    assert (ends.said, ends.label, ends.dead) == ((4010, "server"), "4010", 1)


@pytest.mark.parametrize("path", _PATHS)
async def test_one_that_never_takes_its_close_frame_is_cut(
    log: pytest.LogCaptureFixture, path: str
) -> None:
    gateway = Gateway()
    sock = connected(gateway, path)
    (connection,) = gateway.registry
    connection.close(4008, "too slow")
    gateway.clock.turn(6.0)
    sock.receive(_frame(Opcode.PING, b""))
    assert sock.aborted
    await _lost(sock)
    assert Ends(gateway, log).said == (4008, "server")


async def test_a_code_that_a_client_chooses_is_no_kind_and_no_lost_heartbeat_of_ours(
    log: pytest.LogCaptureFixture,
) -> None:
    kinds = set()
    for code in (3000, 3999, 4010, 4999):
        gateway = Gateway()
        sock = connected(gateway)
        sock.receive(_frame(Opcode.CLOSE, code.to_bytes(2, "big")))
        await _lost(sock)
        ends = Ends(gateway, log)
        assert ends.dead == 0
        kinds.add(ends.line.kind)
        log.clear()
    assert kinds == {"close other client", "close 4010 client"}
