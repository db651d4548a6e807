"""The leases of nodes, read and written within a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sqlite3 import Connection

from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, LeaseLost, NodeLease

_COLUMNS = "owner, owned_until, lost, address"


def renew(
    connection: Connection, owner: str, until: float, address: str | None, process: str
) -> None:
    """Take a lease, or extend it.

    Args:
        process: the name of this process' lock.

    Raises:
        LeaseLost: the lease was declared lost, or released.
    """
    lost = connection.execute(
        "SELECT 1 FROM leases WHERE owner = ? AND (lost OR forgotten)", (owner,)
    ).fetchone()
    if lost:
        raise LeaseLost(f"the lease of {owner} is lost; take another name")
    connection.execute(
        "INSERT INTO leases (owner, owned_until, address, process, expires_at) VALUES (?, ?, ?, "
        "?, ?) ON CONFLICT DO UPDATE SET owned_until = excluded.owned_until, address = "
        "excluded.address, expires_at = excluded.expires_at WHERE excluded.owned_until >= "
        "owned_until",
        (owner, until, address, process, until + LIFETIME_SECONDS),
    )


def release(connection: Connection, owner: str) -> None:
    """Declare the lease lost, if there is one."""
    connection.execute("UPDATE leases SET lost = 1 WHERE owner = ?", (owner,))


def declare_lost(connection: Connection, owner: str, until: float | None, now: float) -> bool:
    """Declare a lease lost if it was never taken, or not renewed since it was until `until`.

    Returns:
        Whether it is lost.
    """
    current = lease(connection, owner)
    if current is not None and not current.lost and current.until != until:
        return False
    connection.execute(
        "INSERT INTO leases (owner, owned_until, lost, expires_at) VALUES (?, 0, 1, ?)"
        " ON CONFLICT DO UPDATE SET lost = 1, forgotten = 0",
        (owner, now + LIFETIME_SECONDS),
    )
    return True


def ended_processes(connection: Connection, is_gone: Callable[[str], bool]) -> list[str]:
    """The ended processes that have leases, by the names of their locks."""
    processes = connection.execute("SELECT DISTINCT process FROM leases WHERE NOT lost").fetchall()
    return [process for (process,) in processes if is_gone(process)]


def lose_all(connection: Connection, processes: Sequence[str]) -> None:
    """Declare the leases of these processes lost at once, before they run out."""
    connection.executemany(
        "UPDATE leases SET lost = 1 WHERE process = ?", [(process,) for process in processes]
    )


def lease(connection: Connection, owner: str) -> NodeLease | None:
    """The lease of a node. None if it has none."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM leases WHERE owner = ? AND NOT forgotten", (owner,)
    ).fetchone()
    return None if row is None else _read(row)


def leases(connection: Connection) -> list[NodeLease]:
    """The leases of all nodes that are not forgotten."""
    return [
        _read(row)
        for row in connection.execute(f"SELECT {_COLUMNS} FROM leases WHERE NOT forgotten")
    ]


def forget(connection: Connection, owner: str) -> None:
    """Forget a lost lease. It stays lost, so its row stays until it expires."""
    connection.execute("UPDATE leases SET forgotten = 1 WHERE owner = ? AND lost", (owner,))


def _read(row: tuple[str, float, int, str | None]) -> NodeLease:
    owner, until, lost, address = row
    return NodeLease(owner, until, bool(lost), address)
