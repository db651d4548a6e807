"""Who talks: the channel `tenant:agent:session`."""

from __future__ import annotations

from typing import NamedTuple

NAME_PATTERN = r"^[A-Za-z0-9_.-]{1,64}$"
"""What a tenant, an agent and a session may be called (no `:`, so that a channel's text form is unambiguous)."""


class Channel(NamedTuple):
    """One conversation of one tenant with one agent."""

    tenant: str
    agent: str
    session: str

    def __str__(self) -> str:
        return ":".join(self)
