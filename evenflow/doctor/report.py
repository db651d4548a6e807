"""The report of `evenflow doctor`: a line for each check, and below what to change."""

from __future__ import annotations

import json
from collections.abc import Iterator

from evenflow.doctor.diagnosis import Diagnosis
from evenflow.doctor.evidence import Observation
from evenflow.doctor.hop_faults import ANY, SERVER, HopFault, hops_of

_LONGEST_TEXT = 300


def as_text(diagnosis: Diagnosis, direct: Diagnosis | None) -> str:
    """The report for people.

    Args:
        direct: the diagnosis without the hops. None: there is none.
    """
    return "\n".join(_lines(diagnosis, direct))


def _lines(diagnosis: Diagnosis, direct: Diagnosis | None) -> Iterator[str]:
    names = f" ({_printable(', '.join(diagnosis.hop_names))})" if diagnosis.hop_names else ""
    yield f"{diagnosis.url}{names}"
    width = max(len(observation.check) for observation in diagnosis.observations)
    for observation in diagnosis.observations:
        name = "" if observation.fault is None else f" [{observation.fault.name}]"
        where = _where(observation, direct)
        seen = _printable(observation.seen)
        yield f"{observation.mark} {observation.check:<{width}}  {seen}{name}{where}"
    for fault in diagnosis.faults:
        yield ""
        yield f"[{fault.name}] {fault.what[0].upper()}{fault.what[1:]}. {fault.effect}"
        yield from _settings(fault, hops_of(diagnosis.hop_names))
    yield ""
    faulty = sum(observation.mark == "✗" for observation in diagnosis.observations)
    total = len(diagnosis.observations)
    yield f"{faulty} of {total} checks found something wrong" if faulty else "nothing is wrong"


def _printable(text: str) -> str:
    """A server's text in one line, without characters that control a terminal."""
    line = " ".join(text.split())[:_LONGEST_TEXT]
    return "".join(character if character.isprintable() else "?" for character in line)


def _settings(fault: HopFault, hops: list[str]) -> Iterator[str]:
    """The settings of the hops that named themselves, or of all hops if none has a setting."""
    selected = [hop for hop in fault.settings if hop in {*hops, ANY, SERVER}]
    has_setting = any(hop in fault.settings for hop in hops)
    for hop in selected if has_setting else fault.settings:
        yield f"  {hop}: {fault.settings[hop]}"


def _where(observation: Observation, direct: Diagnosis | None) -> str:
    """Compare with the same check without the hops."""
    if direct is None or observation.mark == "✓":
        return ""
    same = [other for other in direct.observations if other.check == observation.check]
    if any(other.mark == observation.mark for other in same):
        return " - the same directly: it is no hop's"
    return " - not so directly: a hop does it" if same else ""


def as_json(diagnosis: Diagnosis, direct: Diagnosis | None) -> str:
    """The report as JSON."""
    report = {"proxied": _described(diagnosis)}
    if direct is not None:
        report["direct"] = _described(direct)
    return json.dumps(report, indent=2, ensure_ascii=False)


def _described(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "url": diagnosis.url,
        "hops": diagnosis.hop_names,
        "is_well": diagnosis.is_well,
        "checks": [
            {
                "check": observation.check,
                "mark": observation.mark,
                "seen": observation.seen,
                "fault": None if observation.fault is None else observation.fault.name,
            }
            for observation in diagnosis.observations
        ],
    }
