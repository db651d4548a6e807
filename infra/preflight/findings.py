"""What preflight finds, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from evenflow.infra.account.account import Unanswered


class Verdict(Enum):
    """How it stands with one thing, by the mark that people see."""

    GOOD = "✓"
    WARNING = "!"
    BAD = "✗"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a deployment needs.

    Args:
        found: how it is.
        to_do: what to do about it; "" where all is well.
    """

    name: str
    verdict: Verdict
    found: str
    to_do: str = ""


def good(name: str, found: str) -> Finding:
    """All is well."""
    return Finding(name, Verdict.GOOD, found)


def bad(name: str, found: str, to_do: str) -> Finding:
    """A deployment would fail, or not answer."""
    return Finding(name, Verdict.BAD, found, to_do)


def warning(name: str, found: str, to_do: str) -> Finding:
    """It works now, and won't for long or under the announced load."""
    return Finding(name, Verdict.WARNING, found, to_do)


def unanswered(name: str, error: Unanswered) -> Finding:
    """Nobody knows how it is, since AWS didn't say."""
    to_do = "try again, or look at the rights: `python -m evenflow.infra.preflight --policy`"
    return bad(name, str(error), to_do)


def as_table(findings: Sequence[Finding], ready: str = "ready to deploy") -> str:
    """A line for each, and below it what to do.

    Args:
        ready: the last line if nothing is bad.
    """
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.verdict.value} {finding.name:<{width}}  {finding.found}")
        if finding.to_do:
            lines.append(f"  {'':<{width}}  To do: {finding.to_do}")
    wrong = sum(finding.verdict is Verdict.BAD for finding in findings)
    lines.append(f"{wrong} of {len(findings)} must be mended first" if wrong else ready)
    return "\n".join(lines)
