"""The variables `EVENFLOW_…` as they were meant: white space around values is cut, and what
Kubernetes writes about services of that name is left out.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

PREFIX = "EVENFLOW_"
"""The beginning of all names of settings."""

_BYTE_ORDER_MARK = "\ufeff"
_AROUND = string.whitespace + "\xa0" + _BYTE_ORDER_MARK
_QUOTES = "\"'"

_ADDRESS = r"[0-9A-Fa-f.:]+"
_NUMBER = r"\d+"
_LINK = r"(?:tcp|udp|sctp)://\S+:\d+"
_PORT = r"_PORT_\d+_(?:TCP|UDP|SCTP)"
# Each pod has these variables of each service of its namespace, unless it has
# `enableServiceLinks: false`.
_OF_SERVICES = tuple(
    (re.compile(rf"EVENFLOW(?:_[A-Z0-9_]+)?{name}"), re.compile(value))
    for name, value in (
        ("_SERVICE_HOST", _ADDRESS),
        ("_SERVICE_PORT(?:_[A-Z0-9_]+)?", _NUMBER),
        ("_PORT", _LINK),
        (_PORT, _LINK),
        (f"{_PORT}_PROTO", "tcp|udp|sctp"),
        (f"{_PORT}_PORT", _NUMBER),
        (f"{_PORT}_ADDR", _ADDRESS),
    )
)
_HTTP_PORT, _HTTP_SERVICE = f"{PREFIX}HTTP_PORT", f"{PREFIX}HTTP_SERVICE_HOST"


def trimmed(value: str) -> str:
    """A value without the white space and the byte order mark that files and secrets add."""
    return value.strip(_AROUND)


def is_quoted(value: str) -> bool:
    """Whether a value has quotation marks around it, which no shell has taken away."""
    return len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES


def is_link(value: str) -> bool:
    """Whether this is the address of a service, as Kubernetes writes it: `tcp://10.0.0.1:80`."""
    return re.fullmatch(_LINK, value) is not None


def meant_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of settings by their names, with the values that were meant."""
    # A file of variables may begin with the mark, so the first name, too.
    named = ((name.lstrip(_BYTE_ORDER_MARK), value) for name, value in environment.items())
    ours = {name: trimmed(value) for name, value in named if name.upper().startswith(PREFIX)}
    return {
        name: value
        for name, value in ours.items()
        if not _is_of_service(name, value)
        # Without this port nothing is served. So it must be sure that no person has written it.
        or (name == _HTTP_PORT and _HTTP_SERVICE not in ours)
    }


def _is_of_service(name: str, value: str) -> bool:
    return any(names.fullmatch(name) and values.fullmatch(value) for names, values in _OF_SERVICES)
