"""Checks of a deployment, run concurrently, and the table of their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from http.cookies import CookieError

from websockets.exceptions import ConnectionClosed, WebSocketException

from evenflow.functions.canary.reading import TimedAnswer, WrongAnswer

_FAILURES = (
    *(WrongAnswer, OSError, HTTPException, WebSocketException),
    *(LookupError, AttributeError, TypeError, ValueError, CookieError),
)
# More would be a burst of sessions that an environment's throttle refuses.
_CONCURRENT_CHECKS = 4


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a deployment.

    Args:
        run: makes the check. It raises `WrongAnswer` if it fails, else returns a TimedAnswer or
            None.
        look_at: what to look at if it fails.
    """

    name: str
    run: Callable[[], TimedAnswer | None]
    look_at: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. `wrong` says what came instead; None: the check passed.

    Args:
        error: the exception that `wrong` describes.
    """

    check: Check
    reading: TimedAnswer | None
    seconds: float
    wrong: str | None
    error: Exception | None = None


def run_check(check: Check) -> CheckResult:
    """Run a check. Failed connections and unreadable answers are results, too."""
    began = time.monotonic()
    reading, failure = None, None
    try:
        reading = check.run()
    except _FAILURES as error:
        failure = error
    wrong = None if failure is None else _description(failure)
    return CheckResult(check, reading, time.monotonic() - began, wrong, failure)


def _description(error: Exception) -> str:
    match error:
        case WrongAnswer():
            return str(error)
        case TimeoutError():
            return "nothing came in time"
        case IncompleteRead() | ConnectionClosed():
            return "the connection was cut before the answer's end"
        case OSError() | HTTPException() | WebSocketException():
            return f"{type(error).__name__}: {error}"
    return f"not what the protocol says: {type(error).__name__} {error}"


def run_checks(checks: Sequence[Check]) -> list[CheckResult]:
    """Run all checks, some concurrently. Results keep the order."""
    with ThreadPoolExecutor(_CONCURRENT_CHECKS) as threads:
        return list(threads.map(run_check, checks))


def as_table(findings: Sequence[CheckResult]) -> str:
    """A line for each result, and below a failed one what to look at."""
    width = max(len(finding.check.name) for finding in findings)
    lines = [f"  {'':<{width}}  first text     total"]
    for finding in findings:
        first = "" if finding.reading is None else f"{finding.reading.first_seconds:8.2f} s"
        mark = "✓" if finding.wrong is None else "✗"
        lines.append(f"{mark} {finding.check.name:<{width}}  {first:>10}  {finding.seconds:6.2f} s")
        if finding.wrong is not None:
            lines += [f"    {finding.wrong}", f"    Look at: {finding.check.look_at}"]
    failed = sum(finding.wrong is not None for finding in findings)
    lines.append(f"{failed} of {len(findings)} are wrong" if failed else "all as it should be")
    return "\n".join(lines)
