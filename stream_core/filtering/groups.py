"""The names of the groups of known patterns."""

from __future__ import annotations

from typing import Literal, get_args

Group = Literal["secrets", "email", "phone", "card", "iban", "ssn"]
GROUPS: tuple[Group, ...] = get_args(Group)
"""All of them."""
