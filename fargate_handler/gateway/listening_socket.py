"""A listening socket whose connections have small buffers in the kernel."""

from __future__ import annotations

import socket

from stream_core.policy.limits import Limits


def listening_sockets(host: str, port: int, limits: Limits, count: int) -> list[socket.socket]:
    """Bind `count` TCP sockets to one address; the kernel deals connections out among them.

    Raises:
        OSError: the address can't be had, by this process alone.
    """
    # Sockets that share a port would share it with another process too; one that doesn't share finds out.
    listening_socket(host, port, limits).close()
    return [listening_socket(host, port, limits, shares=True) for _ in range(count)]


def listening_socket(host: str, port: int, limits: Limits, *, shares: bool = False) -> socket.socket:
    """Bind a TCP socket; whoever serves it calls `listen`. One that `shares` leaves room for others at its address.

    Connections inherit its buffers. A fixed send buffer bounds a slow reader's share of the kernel's memory, and shows early
    that it is slow; a fixed receive buffer bounds what a quick sender has read at a time (docs/decisions/0007).

    Raises:
        OSError: the address can't be had.
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
