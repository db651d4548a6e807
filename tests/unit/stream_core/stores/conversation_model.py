"""What a conversation is, in few words: messages that may take the place of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from evenflow.stream_core.stores.session_store import LedgerEntry

# Of each message: whether it replaces one, goes on with a version, or with the last; and which.
CHOICES = st.lists(st.tuples(st.sampled_from("rpn"), st.integers(0, 12)), max_size=12)


def version_of(ledger: Sequence[LedgerEntry]) -> list[str]:
    """The ids of the version that the last message is in, by copying whole versions."""
    versions: dict[str, list[str]] = {}
    for entry in ledger:
        if entry.replaces is not None:
            before = versions[entry.replaces][:-1]
        else:
            behind = entry.parent_message_id or entry.previous_message_id
            before = versions[behind] if behind is not None else []
        versions[entry.message_id] = [*before, entry.message_id]
    return versions[ledger[-1].message_id] if ledger else []


def last_of_versions(ledger: Sequence[LedgerEntry]) -> list[str]:
    """The messages behind which no other one stands, oldest first."""
    versions = [version_of(ledger[: place + 1]) for place in range(len(ledger))]
    followed = {message_id for version in versions for message_id in version[:-1]}
    return [entry.message_id for entry in ledger if entry.message_id not in followed]


def ledger_of(choices: list[tuple[str, int]]) -> list[LedgerEntry]:
    """A session whose messages branch as chosen."""
    ledger: list[LedgerEntry] = []
    for number, (how, which) in enumerate(choices):
        ends = last_of_versions(ledger)
        ledger.append(
            LedgerEntry(
                f"m{number}",
                f"m{number - 1}" if number else None,
                "?",
                f"rsp_{number}",
                "task",
                replaces=f"m{which % number}" if number and how == "r" else None,
                parent_message_id=ends[which % len(ends)] if number and how == "p" else None,
            )
        )
    return ledger
