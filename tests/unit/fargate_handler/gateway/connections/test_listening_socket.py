"""What the kernel holds for a connection is bounded by the limits, whatever its client does."""

from __future__ import annotations

import socket

import pytest

from evenflow.fargate_handler.gateway.connections.processes import listening_socket
from evenflow.stream_core.base.limits import Limits


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(write_buffer_bytes=16_384, read_buffer_bytes=32_768)]
)
def test_a_connection_has_buffers_of_the_limits_sizes(limits: Limits) -> None:
    with listening_socket("127.0.0.1", 0, limits) as listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as connection:
            assert (
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
                == limits.write_buffer_bytes
            )
            assert (
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
                == limits.read_buffer_bytes
            )
