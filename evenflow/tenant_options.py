"""The options that describe a tenant, and what they make of its record."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, TypeVar

from evenflow.stream_core.auth.allowed_origins import parse_origins
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.channel import NAME_PATTERN
from evenflow.stream_core.tenants.tenant import EVERY_SCOPE, QuotaLimits, Scope, Tenant

T = TypeVar("T")

NONE = "none"
"""The value that removes a bound or a list."""

_LIGHTEST, _HEAVIEST = 0.01, 1_000.0
_OF_USERS = "user_"
_DOLLARS = "dollars_per_month"
_LIMITS = tuple(QuotaLimits.model_fields)
_LONGEST_DAYS = 3_650
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options. Options that aren't set are not in the parsed arguments."""
    add = parser.add_argument_group("the tenant").add_argument
    add("--weight", type=_weight, metavar="N", help="its share beside others (1)", **_ABSENT)
    add(
        "--class", dest="service_class", type=_one_of(ServiceClass), metavar="CLASS",
        help=f"{_listed(ServiceClass)} (standard)", **_ABSENT,
    )  # fmt: skip
    add(
        "--models",
        type=_names,
        metavar="A,B",
        help="those that it may use, or none: all",
        **_ABSENT,
    )
    add("--agents", type=_agents, metavar="A,B", help="likewise", **_ABSENT)
    add("--origins", type=_origins, metavar="A,B", help="likewise, of its pages", **_ABSENT)
    add(
        "--filtering", type=_filtering, metavar="HOW",
        help="hold, retract, off, or none: as the servers have it", **_ABSENT,
    )  # fmt: skip
    add(
        "--open", action=argparse.BooleanOptionalAction,
        help="whether anybody may open its sessions, without a key", **_ABSENT,
    )  # fmt: skip
    add(
        "--shadow", action=argparse.BooleanOptionalAction,
        help="whether exceeded bounds are only counted and reported", **_ABSENT,
    )  # fmt: skip
    _add_bounds(parser, "", "the tenant")
    _add_bounds(parser, _OF_USERS, "each of its users")


def add_options_of_key(parser: argparse.ArgumentParser) -> None:
    """Add the options of a key that has bounds of its own."""
    add_scopes(parser)
    _add_bounds(parser, "", "the key")


def add_scopes(parser: argparse.ArgumentParser) -> None:
    """Add the option of a key's scopes."""
    parser.add_argument(
        "--scopes", type=scopes, default=EVERY_SCOPE, metavar="A,B",
        help="what the key may do: sessions, api, read (all)",
    )  # fmt: skip


def _add_bounds(parser: argparse.ArgumentParser, prefix: str, of: str) -> None:
    bounds = parser.add_argument_group(f"bounds of {of}: a number, or {NONE}")
    for name in _LIMITS:
        kind = _dollars if name == _DOLLARS else _count
        option = f"--{prefix}{name}".replace("_", "-")
        bounds.add_argument(option, type=_or_none(kind), metavar="N", **_ABSENT)


_ABSENT: dict[str, Any] = {"default": argparse.SUPPRESS}


def updated_record(tenant: Tenant, options: Mapping[str, Any]) -> Tenant:
    """The record with the values of the options that were set."""
    fields = {name: options[name] for name in Tenant.model_fields if name in options}
    return tenant.model_copy(
        update={
            **fields,
            "limits": _limits(tenant.limits, options, ""),
            "user_limits": _limits(tenant.user_limits, options, _OF_USERS),
        }
    )


def limits_of_key(options: Mapping[str, Any]) -> QuotaLimits:
    """The bounds of a key."""
    return _limits(QuotaLimits(), options, "")


def changes_prices(options: Mapping[str, Any]) -> bool:
    """Whether the options change a budget in dollars, or the models that it is spent on.

    Only then prices are checked: an earlier budget without prices blocks no other change.
    """
    return (
        any(f"{prefix}{_DOLLARS}" in options for prefix in ("", _OF_USERS)) or "models" in options
    )


def _limits(limits: QuotaLimits, options: Mapping[str, Any], prefix: str) -> QuotaLimits:
    return limits.model_copy(
        update={
            name: options[f"{prefix}{name}"] for name in _LIMITS if f"{prefix}{name}" in options
        }
    )


def tenant_name(text: str) -> str:
    """A tenant's id."""
    if not re.fullmatch(NAME_PATTERN, text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name: it must be 1 to 64 letters, digits, `_`, `.` or `-`"
        )
    return text


def scopes(text: str) -> frozenset[Scope]:
    """What a key may do: some of its scopes, or `none` for no bound: all."""
    if text == NONE:
        return EVERY_SCOPE
    return frozenset(_one_of(Scope)(name) for name in _names(text))


def duration(text: str) -> float:
    """Seconds: `30s`, `15m`, `24h`, `7d`, or `0`."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if (found is None and text != "0") or seconds > _LONGEST_DAYS * _SECONDS["d"]:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be like 30s, 15m, 24h or 7d, or 0, and {_LONGEST_DAYS}d at most"
        )
    return seconds


def day(text: str) -> str:
    """A day of UTC."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a day such as 2026-11-24") from None


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1, or {NONE}")
    return int(text)


def _number(text: str) -> float:
    """A finite number. Infinity is none, so that no bound admits it."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _dollars(text: str) -> float:
    if not (dollars := _number(text)) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0, or {NONE}")
    return dollars


def _weight(text: str) -> float:
    if not _LIGHTEST <= (weight := _number(text)) <= _HEAVIEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number from {_LIGHTEST:g} to {_HEAVIEST:g}"
        )
    return weight


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} must be names, as in a,b, or {NONE}")
    return () if names == (NONE,) else names


def _agents(text: str) -> tuple[str, ...]:
    return tuple(tenant_name(name) for name in _names(text))


def _origins(text: str) -> tuple[str, ...]:
    try:
        return () if text == NONE else parse_origins(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, or {NONE}") from None


def _filtering(text: str) -> str | None:
    if text not in (ways := ("hold", "retract", "off", NONE)):
        raise argparse.ArgumentTypeError(f"{text!r} must be one of {', '.join(ways)}")
    return None if text == NONE else text


def _one_of(names: type[T]) -> Callable[[str], T]:
    def read(text: str) -> T:
        try:
            return names(text)  # type: ignore[call-arg]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} must be one of {_listed(names)}") from None

    return read


def _listed(names: Any) -> str:
    return ", ".join(names)


def _or_none(kind: Callable[[str], T]) -> Callable[[str], T | None]:
    return lambda text: None if text == NONE else kind(text)
