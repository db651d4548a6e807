"""The options of the connections between handlers and workers."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.inference.channel_options import (
    Options,
    handler_options,
    worker_options,
)
from evenflow.stream_core.base.limits import Limits


@pytest.mark.parametrize(
    "options", [handler_options(Limits(), "worker:50051"), worker_options(Limits())]
)
def test_a_silent_machine_is_found_before_a_first_token_is_due(options: Options) -> None:
    values = dict(options)
    silent, waits = values["grpc.keepalive_time_ms"], values["grpc.http2.ping_timeout_ms"]
    assert (int(silent) + int(waits)) / 1000 < Limits().model_first_sign_seconds / 2
