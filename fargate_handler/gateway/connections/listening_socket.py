"""Listening sockets whose connections have small buffers in the kernel."""

from __future__ import annotations

import socket

from evenflow.stream_core.base.limits import Limits

# libuv accepts one connection of each listening socket in a turn of the loop. On a saturated node,
# whose turns take milliseconds, one socket would accept two hundred a second.
_SOCKETS_OF_A_PROCESS = 32


def listening_sockets(
    host: str, port: int, limits: Limits, processes: int = 1
) -> list[list[socket.socket]]:
    """Bind sockets for each process to one address. The kernel spreads connections over them all.

    Raises:
        OSError: the address can't be used, or another process uses it.
    """
    # Sockets that share a port would share it with another process, too. One that doesn't share
    # finds out.
    listening_socket(host, port, limits).close()
    return [
        [listening_socket(host, port, limits, shares=True) for _ in range(_SOCKETS_OF_A_PROCESS)]
        for _ in range(processes)
    ]


def listening_socket(
    host: str, port: int, limits: Limits, *, shares: bool = False
) -> socket.socket:
    """Bind a TCP socket. With `shares`, other sockets may have the same address.

    Connections inherit its buffers. A fixed send buffer bounds the kernel's memory for a slow
    reader, and shows early that it is slow. A fixed receive buffer bounds what is read from a fast
    sender at once.

    Raises:
        OSError: the address can't be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Linux doubles the numbers.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.write_buffer_bytes // 2)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.read_buffer_bytes // 2)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening
