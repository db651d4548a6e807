"""The table of calls: what each needs, costs and is bound by. It is a section of docs/limits.md.

`tests/integration/test_credentials_of_every_route.py` holds a server to `refusal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from docs.markdown import paragraph
from evenflow.stream_core.policy.rights import Right
from evenflow.stream_core.protocol.routes import (
    LIMITS_OF,
    ROUTES,
    SHARE,
    Bound,
    Credential,
    Route,
)


class Shown(StrEnum):
    """What a caller shows, where tenants have keys."""

    NOTHING = "nothing"
    WRONG_KEY = "wrong key"
    EXPIRED_KEY = "expired key"
    REMOVED_KEY = "removed key"
    KEY_TO_ASK = "key `api`"
    KEY_TO_READ = "key `read`"
    KEY_TO_OPEN = "key `sessions`"
    OTHER_TENANT = "another tenant's key"
    SESSION = "session's token"
    EXPIRED = "expired token"
    OTHER_SESSION = "another session's token"
    MAY_READ = "token or share that may `read`"
    MAY_WRITE = "token that may `write`"
    MAY_CANCEL = "token that may `cancel`"
    TICKET = "ticket for the response"
    OTHER_TICKET = "ticket for another"


class Refusal(NamedTuple):
    """How a call is refused."""

    status: int
    code: str


_KEYS = {Shown.KEY_TO_ASK, Shown.KEY_TO_READ, Shown.KEY_TO_OPEN, Shown.OTHER_TENANT}
_INVALID_KEYS = {Shown.WRONG_KEY, Shown.EXPIRED_KEY, Shown.REMOVED_KEY}
_TICKETS = {Shown.TICKET, Shown.OTHER_TICKET}
_RIGHTS = {
    Shown.MAY_READ: Right.READ,
    Shown.MAY_WRITE: Right.WRITE,
    Shown.MAY_CANCEL: Right.CANCEL,
}
_NOT_FOUND = {"response_id": "response_not_found", "session_id": "session_not_found"}
_SCOPE, _NOT_PERMITTED = Refusal(403, "key_scope"), Refusal(403, "not_permitted")
_INVALID_TOKEN = Refusal(401, "token_invalid")
# Where these columns of the page say the same for all routes, they are one.
_COLUMNS: Mapping[str, Shown] = {
    "nothing": Shown.NOTHING,
    "wrong, expired or removed key": Shown.WRONG_KEY,
    **{
        str(shown): shown
        for shown in Shown
        if shown not in {Shown.NOTHING, *_INVALID_KEYS, Shown.EXPIRED}
    },
    "expired token": Shown.EXPIRED,
}


def refusal(route: Route, shown: Shown) -> Refusal | None:
    """How a call of a route is refused that shows this. None: it is answered.

    What another tenant or session has is named in the path, where the route names anything.
    """
    credential, right = route.terms.credential, route.terms.right
    if route is SHARE and shown is Shown.MAY_WRITE:
        return _NOT_PERMITTED  # who shares must read, too
    match credential:
        case Credential.OPENER:
            return _opening(shown)
        case Credential.SENDER if right is not None:
            return _sending(route, right, shown)
        case Credential.SESSION | Credential.READER if right is not None:
            return _by_token(route, right, shown)
    return None


def _opening(shown: Shown) -> Refusal | None:
    if shown is Shown.KEY_TO_OPEN:
        return None
    return _SCOPE if shown in _KEYS - {Shown.OTHER_TENANT} else Refusal(401, "tenant_key_invalid")


def _sending(route: Route, right: Right, shown: Shown) -> Refusal | None:
    if shown is Shown.NOTHING or shown in _INVALID_KEYS:
        return Refusal(401, "invalid_api_key")
    if shown is Shown.KEY_TO_OPEN or (shown is Shown.KEY_TO_READ and right is not Right.READ):
        return _SCOPE
    if shown in _TICKETS:
        return _NOT_PERMITTED
    return _of_others(route) if shown is Shown.OTHER_TENANT else _with(route, right, shown)


def _by_token(route: Route, right: Right, shown: Shown) -> Refusal | None:
    if shown is Shown.NOTHING:
        return Refusal(401, "token_missing")
    if shown in _INVALID_KEYS | _KEYS:
        return _INVALID_TOKEN
    if shown in _TICKETS:
        if right is not Right.READ:
            return _NOT_PERMITTED
        reads = route.terms.credential is Credential.READER
        own = shown is Shown.TICKET or route.terms.bound is Bound.SOCKET
        return None if reads and own else _INVALID_TOKEN
    return _with(route, right, shown)


def _with(route: Route, right: Right, shown: Shown) -> Refusal | None:
    """How a session's token is refused."""
    if shown is Shown.EXPIRED:
        return Refusal(401, "token_expired")
    if shown in _RIGHTS:
        return None if _RIGHTS[shown] is right else _NOT_PERMITTED
    return _of_others(route) if shown is Shown.OTHER_SESSION else None


def _of_others(route: Route) -> Refusal | None:
    """How who names what is another's is refused."""
    code = next((code for name, code in _NOT_FOUND.items() if f"{{{name}}}" in route.path), None)
    return None if code is None else Refusal(404, code)


def calls_section() -> Iterable[str]:
    """The section of the page."""
    yield from (
        "## Calls",
        "",
        *paragraph(
            "Every call passes one intake, which knows these: what the caller has to show, what "
            "the call costs of `EVENFLOW_CALLS_PER_SECOND` and "
            "`EVENFLOW_CALLS_PER_SENDER_PER_SECOND`, and what bounds it besides. A route without "
            "them is none. A call that costs 1 takes about a millisecond of a core; answers cost "
            "one more for each 16 KiB. `✓`: it is answered; for another's token or key, with "
            "what is its own. All this is so where tenants have keys."
        ),
        "",
        _row("call", "right", *_COLUMNS, "cost", "bounds besides"),
        _row(*["---"] * (len(_COLUMNS) + 4)),
        *(_row(*_cells(route)) for route in ROUTES if route.terms.bound is not Bound.MACHINE),
        "",
    )


def _cells(route: Route) -> Iterable[str]:
    terms = route.terms
    yield f"`{route.method} {route.public_path}`" + _upgrade(route)
    yield "" if terms.right is None else str(terms.right)
    for shown in _COLUMNS.values():
        refused = refusal(route, shown)
        yield "✓" if refused is None else str(refused.status)
    yield str(terms.cost)
    yield ", ".join(f"`{name.upper()}`" for name in LIMITS_OF[terms.bound])


def _upgrade(route: Route) -> str:
    return ", WebSocket" if route.terms.bound is Bound.SOCKET else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
