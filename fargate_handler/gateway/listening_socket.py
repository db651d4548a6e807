"""A listening socket whose connections have a small kernel send buffer."""

from __future__ import annotations

import socket


def listening_sockets(host: str, port: int, write_buffer_bytes: int, count: int) -> list[socket.socket]:
    """Bind `count` TCP sockets to one address; the kernel deals connections out among them.

    Raises:
        OSError: the address can't be had, by this process alone.
    """
    # Sockets that share a port would share it with another process too; one that doesn't share finds out.
    listening_socket(host, port, write_buffer_bytes).close()
    return [listening_socket(host, port, write_buffer_bytes, shares=True) for _ in range(count)]


def listening_socket(host: str, port: int, write_buffer_bytes: int, *, shares: bool = False) -> socket.socket:
    """Bind a TCP socket; whoever serves it calls `listen`. One that `shares` leaves room for others at its address.

    Connections inherit the send buffer. A fixed one bounds a slow reader's share of the kernel's memory, and shows early
    that it is slow (docs/decisions/0007).

    Raises:
        OSError: the address can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Linux doubles the number.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, write_buffer_bytes // 2)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening
