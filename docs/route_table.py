"""The tables of calls and of acceptance in docs/limits.md: needs, costs, bounds and rejections.

`tests/integration/test_credentials_of_every_route.py` checks `refusal` against a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from docs.markdown import paragraph
from evenflow.fargate_handler.gateway.http.call_intake import CALL_REJECTIONS
from evenflow.fargate_handler.orchestrator.acceptance import (
    CHECKS,
    STORE_REJECTIONS,
    AcceptanceCheck,
    Rejection,
)
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.http.routes import (
    LIMITS_OF,
    ROUTES,
    SHARE,
    Bound,
    Credential,
    Route,
)


class CallerKind(StrEnum):
    """A caller, by what it shows to a server whose tenants have keys."""

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


_KEYS = {
    *(CallerKind.KEY_TO_ASK, CallerKind.KEY_TO_READ, CallerKind.KEY_TO_OPEN),
    CallerKind.OTHER_TENANT,
}
_INVALID_KEYS = {CallerKind.WRONG_KEY, CallerKind.EXPIRED_KEY, CallerKind.REMOVED_KEY}
_TICKETS = {CallerKind.TICKET, CallerKind.OTHER_TICKET}
_RIGHTS = {
    CallerKind.MAY_READ: Right.READ,
    CallerKind.MAY_WRITE: Right.WRITE,
    CallerKind.MAY_CANCEL: Right.CANCEL,
}
_NOT_FOUND = {"response_id": "response_not_found", "session_id": "session_not_found"}
_WRONG_SCOPE, _NOT_PERMITTED = Refusal(403, "key_scope"), Refusal(403, "not_permitted")
_INVALID_TOKEN = Refusal(401, "token_invalid")
# The columns of the page. Keys that are refused alike share one.
_COLUMNS: Mapping[str, CallerKind] = {
    "nothing": CallerKind.NOTHING,
    "wrong, expired or removed key": CallerKind.WRONG_KEY,
    **{
        str(caller): caller
        for caller in CallerKind
        if caller not in {CallerKind.NOTHING, *_INVALID_KEYS, CallerKind.EXPIRED}
    },
    "expired token": CallerKind.EXPIRED,
}


def refusal(route: Route, caller: CallerKind) -> Refusal | None:
    """How a caller's call of a route is refused. None: it is answered.

    The response or session in a path is the first tenant's own. To `OTHER_TENANT` and
    `OTHER_SESSION` it is another's.
    """
    credential, right = route.terms.credential, route.terms.right
    if route is SHARE and caller is CallerKind.MAY_WRITE:
        return _NOT_PERMITTED  # it must be able to read, too
    match credential:
        case Credential.OPENER:
            return _opening_refusal(caller)
        case Credential.SENDER if right is not None:
            return _sender_refusal(route, right, caller)
        case Credential.SESSION | Credential.READER if right is not None:
            return _token_refusal(route, right, caller)
    return None


def _opening_refusal(caller: CallerKind) -> Refusal | None:
    if caller is CallerKind.KEY_TO_OPEN:
        return None
    is_own_key = caller in _KEYS - {CallerKind.OTHER_TENANT}
    return _WRONG_SCOPE if is_own_key else Refusal(401, "tenant_key_invalid")


def _sender_refusal(route: Route, right: Right, caller: CallerKind) -> Refusal | None:
    if caller is CallerKind.NOTHING or caller in _INVALID_KEYS:
        return Refusal(401, "invalid_api_key")
    reads_only = caller is CallerKind.KEY_TO_READ and right is not Right.READ
    if caller is CallerKind.KEY_TO_OPEN or reads_only:
        return _WRONG_SCOPE
    if caller in _TICKETS:
        return _NOT_PERMITTED
    if caller is CallerKind.OTHER_TENANT:
        return _as_not_found(route)
    return _with_session_token(route, right, caller)


def _token_refusal(route: Route, right: Right, caller: CallerKind) -> Refusal | None:
    if caller is CallerKind.NOTHING:
        return Refusal(401, "token_missing")
    if caller in _INVALID_KEYS | _KEYS:
        return _INVALID_TOKEN
    if caller in _TICKETS:
        if right is not Right.READ:
            return _NOT_PERMITTED
        reads = route.terms.credential is Credential.READER
        own = caller is CallerKind.TICKET or route.terms.bound is Bound.SOCKET
        return None if reads and own else _INVALID_TOKEN
    return _with_session_token(route, right, caller)


def _with_session_token(route: Route, right: Right, caller: CallerKind) -> Refusal | None:
    """How a session's token is refused."""
    if caller is CallerKind.EXPIRED:
        return Refusal(401, "token_expired")
    if caller in _RIGHTS:
        return None if _RIGHTS[caller] is right else _NOT_PERMITTED
    return _as_not_found(route) if caller is CallerKind.OTHER_SESSION else None


def _as_not_found(route: Route) -> Refusal | None:
    """How a call is refused that names what another tenant or session has."""
    code = next((code for name, code in _NOT_FOUND.items() if f"{{{name}}}" in route.path), None)
    return None if code is None else Refusal(404, code)


def calls_section() -> Iterable[str]:
    """The section of the page."""
    yield from (
        "## Calls",
        "",
        *paragraph(
            "One intake checks every call: what the caller shows, what the call costs of "
            "`EVENFLOW_CALLS_PER_SECOND` and `EVENFLOW_CALLS_PER_SENDER_PER_SECOND`, and what "
            "else bounds it. No route can be registered without these. A call that costs 1 takes "
            "about a millisecond of a core; an answer costs one more for each 16 KiB, and so does "
            "what a stream or a WebSocket replays. The table is that of a server whose tenants "
            "have keys. `✓`: the call is answered; with another's "
            "key or token, it is about what belongs to that."
        ),
        "",
        _row("call", "right", *_COLUMNS, "cost", "other bounds"),
        _row(*["---"] * (len(_COLUMNS) + 4)),
        *(_row(*_cells(route)) for route in ROUTES if route.terms.bound is not Bound.MACHINE),
        "",
    )


def acceptance_section() -> Iterable[str]:
    """The section of the page that lists why a message is rejected."""
    call = ("limits of the call itself, before it is a message", CALL_REJECTIONS)
    checks = ((_summary(check), check.rejections) for check in CHECKS)
    store = ("the message is stored", STORE_REJECTIONS)
    yield from (
        "## Acceptance",
        "",
        *paragraph(
            "A message passes these checks in this order, over every protocol. Each rejects it "
            "before anything is stored or charged, and what earlier ones have reserved is given "
            "back. The error's code and text say which check has rejected the message. "
            "`Retry-After`, `retry_after_ms` in the body and in frames, says when another try may "
            "pass; where the column is empty, only another message does."
        ),
        "",
        _row("", "check", "code", "status", "limit", "`Retry-After`"),
        _row(*["---"] * 6),
        *_rejection_rows([call, *checks, store]),
        "",
    )


def _rejection_rows(steps: Iterable[tuple[str, Sequence[Rejection]]]) -> Iterable[str]:
    with_codes = [step for step in steps if step[1]]
    for number, (what, rejections) in enumerate(with_codes, 1):
        for place, (code, status, limit, retry_after) in enumerate(rejections):
            first = ("", "") if place else (str(number), what)
            yield _row(*first, f"`{code}`", str(status), limit, retry_after)


def _summary(check: type[AcceptanceCheck]) -> str:
    """The first sentence of a check's docstring."""
    words = " ".join((check.__doc__ or "").split())
    return words.partition(". ")[0].removesuffix(".")


def _cells(route: Route) -> Iterable[str]:
    terms = route.terms
    yield f"`{route.method} {route.public_path}`" + _upgrade(route)
    yield "" if terms.right is None else str(terms.right)
    for caller in _COLUMNS.values():
        found = refusal(route, caller)
        yield "✓" if found is None else str(found.status)
    yield str(terms.cost)
    yield ", ".join(f"`{name.upper()}`" for name in LIMITS_OF[terms.bound])


def _upgrade(route: Route) -> str:
    return ", WebSocket" if route.terms.bound is Bound.SOCKET else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
