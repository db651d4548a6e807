"""Conflicts of an update, and the update that they are found in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evenflow.infra.updates.replacement import replaced_ids
from evenflow.infra.updates.stacks import Stack, Stacks, referred_ids


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing that an update can't do.

    Args:
        to_do: the steps to take.
        blocks: whether the update must not begin. Otherwise `to_do` is for before or after it.
    """

    stack: str
    found: str
    to_do: str
    blocks: bool = True

    def __str__(self) -> str:
        return f"{self.stack}: {self.found}\n  To do: {self.to_do}"


@dataclass(frozen=True)
class Update:
    """An update of deployed stacks to synthesized ones."""

    old: Stacks
    new: Stacks
    replaced: Mapping[str, frozenset[str]]
    """The logical ids of replaced resources, by stack."""

    @classmethod
    def between(cls, old: Stacks, new: Stacks) -> Update:
        """The update from deployed to synthesized stacks."""
        replaced = {name: replaced_ids(old[name], new[name]) for name in new if name in old}
        return cls(old, new, replaced)

    @property
    def changed_stacks(self) -> Iterator[tuple[Stack, Stack]]:
        """Each stack that is there before and after, in the order of their deployment."""
        return ((self.old[name], self.new[name]) for name in self.new if name in self.old)

    def is_moved(self, stack: str, resource: Mapping[str, Any]) -> bool:
        """Whether a resource refers to a replaced one."""
        replaced = self.replaced.get(stack, frozenset[str]())
        return bool(referred_ids(resource["Properties"]) & replaced)

    def is_gone(self, stack: str, logical_id: str) -> bool:
        """Whether a resource of a deployed stack is removed or replaced."""
        if stack not in self.new:
            return False
        return logical_id not in self.new[stack].resources or logical_id in self.replaced.get(
            stack, ()
        )
