"""One answer, read over every transport at once: what the canary does each minute."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from evenflow.functions.canary.checks import Check, Finding, run_check
from evenflow.functions.canary.front_door import Session
from evenflow.functions.canary.reading import Stopwatch
from evenflow.functions.canary.transports import TRANSPORTS, ask


def read_one_answer(session: Session, question: str) -> list[Finding]:
    """Ask once; a finding for each transport. All must give the same text.

    Raises:
        WrongAnswer, OSError, HTTPException: the message is not accepted.
    """
    stopwatches = [Stopwatch() for _ in TRANSPORTS]
    response_id = ask(session, question)
    checks = [
        Check(it.name, partial(it.read, session, response_id, stopwatch), it.look_at)
        for it, stopwatch in zip(TRANSPORTS, stopwatches, strict=True)
    ]
    with ThreadPoolExecutor(len(checks)) as threads:
        return _compared(list(threads.map(run_check, checks)))


def _compared(findings: list[Finding]) -> list[Finding]:
    """The same, where a text that is not that of most others is wrong."""
    texts = [finding.reading.text for finding in findings if finding.reading is not None]
    usual = max(texts, key=texts.count, default="")
    return [
        finding
        if finding.reading is None or finding.reading.text == usual
        else Finding(
            finding.check,
            finding.reading,
            finding.seconds,
            f"{len(finding.reading.text)} characters, and over others {len(usual)}: not one text",
        )
        for finding in findings
    ]
