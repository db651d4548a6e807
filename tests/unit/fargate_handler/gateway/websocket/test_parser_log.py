from __future__ import annotations

import logging

import pytest

from evenflow.fargate_handler.gateway.websocket.websocket_protocol import ParserLog
from evenflow.stream_core.metrics.instruments import Counter


def test_what_a_client_sends_is_counted_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    errors = Counter()
    caplog.set_level(logging.INFO)
    log = ParserLog(errors)
    log.error("WS parser error: %s, initiate disconnect", (1002, "unmasked"))
    assert errors.value == 1
    (record,) = caplog.records
    assert (record.levelname, "unmasked" in record.getMessage()) == ("INFO", True)


def test_what_fails_here_stays_an_error(caplog: pytest.LogCaptureFixture) -> None:
    errors = Counter()
    log = ParserLog(errors)
    log.error("Initiate disconnect because of exception from %s", "on_ws_connected")
    assert errors.value == 0
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "picows.server")
