"""The findings of preflight, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from evenflow.infra.account.account import AwsCallError


class Severity(Enum):
    """How serious a finding is, by the mark in the table."""

    GOOD = "✓"
    WARNING = "!"
    BAD = "✗"


@dataclass(frozen=True, slots=True)
class PreflightFinding:
    """The result of one check.

    Args:
        found: the state that was found.
        to_do: what to do about it; "" if nothing.
    """

    name: str
    severity: Severity
    found: str
    to_do: str = ""


def good(name: str, found: str) -> PreflightFinding:
    """A finding for a check that passed."""
    return PreflightFinding(name, Severity.GOOD, found)


def bad(name: str, found: str, to_do: str) -> PreflightFinding:
    """A finding that makes a deployment fail, or leaves it without answers."""
    return PreflightFinding(name, Severity.BAD, found, to_do)


def warning(name: str, found: str, to_do: str) -> PreflightFinding:
    """A finding that matters later, or under the announced load."""
    return PreflightFinding(name, Severity.WARNING, found, to_do)


def unanswered(name: str, error: AwsCallError) -> PreflightFinding:
    """A finding for a check that AWS did not answer."""
    to_do = "try again, or look at the rights: `python -m evenflow.infra.preflight --policy`"
    return bad(name, str(error), to_do)


def as_table(findings: Sequence[PreflightFinding], ready: str = "ready to deploy") -> str:
    """A line for each finding, and below it what to do.

    Args:
        ready: the last line if nothing is bad.
    """
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.severity.value} {finding.name:<{width}}  {finding.found}")
        if finding.to_do:
            lines.append(f"  {'':<{width}}  To do: {finding.to_do}")
    wrong = sum(finding.severity is Severity.BAD for finding in findings)
    lines.append(f"{wrong} of {len(findings)} must be mended first" if wrong else ready)
    return "\n".join(lines)
