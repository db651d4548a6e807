"""The rights of a token on its session."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from evenflow.stream_core.base.errors import NotPermitted


class Right(StrEnum):
    """A right on a session. A token has all of them, unless it lists some."""

    READ = "read"
    """Read its messages and answers."""
    WRITE = "write"
    """Send messages, and share what it reads."""
    CANCEL = "cancel"
    """Stop answers, and end the session."""


ALL_RIGHTS = frozenset(Right)
TO_READ = frozenset([Right.READ])


def check_right(right: Right, may: Collection[Right]) -> None:
    """Check that a token with these rights may do what needs `right`.

    Raises:
        NotPermitted: it may not.
    """
    if right not in may:
        raise NotPermitted(
            f"this token has no right to {right} here; nothing was changed, use one whose `may` "
            f"has {right}",
            code="not_permitted",
        )
