"""What a model server sends for one call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

EVENT_STREAM = "application/vnd.amazon.eventstream"
Ending = Literal["end", "break", "silence", "silence before the head"]


@dataclass(frozen=True)
class Reply:
    """Pieces of bytes, each after a gap; then the end of the body, a broken connection or silence.

    `pieces`: seconds to wait, and the bytes to send then.
    """

    pieces: Iterable[tuple[float, bytes]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    then: Ending = "end"


def sends(
    *pieces: bytes, gap: float = 0.0, then: Ending = "end", headers: Mapping[str, str] | None = None
) -> Reply:
    """An event stream in these pieces, `gap` seconds apart."""
    return Reply(
        [(gap, piece) for piece in pieces],
        200,
        {"Content-Type": EVENT_STREAM, **(headers or {})},
        then,
    )


def refuses(status: int, error: str, message: str, **members: object) -> Reply:
    """An error answer as AWS writes it."""
    body = json.dumps({"message": message, **members}).encode()
    kind = f"{error}:http://internal.amazon.com/coral/com.amazonaws.models/"
    return Reply(
        [(0, body)], status, {"Content-Type": "application/json", "x-amzn-errortype": kind}
    )


def clears() -> Reply:
    """A guardrail's answer that finds nothing."""
    return _judged({"action": "NONE", "outputs": [], "assessments": [{}]})


def intervenes(text: str, action: Literal["ANONYMIZED", "BLOCKED"]) -> Reply:
    """A guardrail's answer that found somebody's name: what is to stand instead, and why."""
    found = {"type": "NAME", "match": "Ann", "action": action, "detected": True}
    policy = {"sensitiveInformationPolicy": {"piiEntities": [found], "regexes": []}}
    return _judged(
        {
            "action": "GUARDRAIL_INTERVENED",
            "outputs": [{"text": text}],
            "assessments": [policy],
        }
    )


def _judged(body: Mapping[str, object]) -> Reply:
    used = {"sensitiveInformationPolicyUnits": 1, "topicPolicyUnits": 0}
    told = json.dumps({"usage": used, **body}).encode()
    return Reply([(0, told)], 200, {"Content-Type": "application/json"})
