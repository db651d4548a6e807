"""Reads the environment variables `EVENFLOW_…`: trims their values, and drops the service links
that Kubernetes sets for services of that name.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, SecretStr

PREFIX = "EVENFLOW_"
"""The prefix of every setting's name."""

_BYTE_ORDER_MARK = "\ufeff"
_AROUND = string.whitespace + "\xa0" + _BYTE_ORDER_MARK
_QUOTES = "\"'"

_ADDRESS = r"[0-9A-Fa-f.:]+"
_NUMBER = r"\d+"
_LINK = r"(?:tcp|udp|sctp)://\S+:\d+"
_PORT = r"_PORT_\d+_(?:TCP|UDP|SCTP)"
# Kubernetes sets these in each pod, for each service of the namespace, unless the pod has
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
    """Remove the white space and the byte order mark that files and secrets add to a value."""
    return value.strip(_AROUND)


def _in_a_header(secret: SecretStr) -> SecretStr:
    """Trim a secret, and check that an HTTP header can carry it."""
    value = trimmed(secret.get_secret_value())
    if not value.isprintable() or any(character > "\xff" for character in value):
        raise ValueError(
            "has a line break or a character that an HTTP header can't carry: it must be one line "
            "of printable characters of Latin-1"
        )
    return SecretStr(value)


Secret = Annotated[SecretStr, AfterValidator(_in_a_header)]
"""A key or a token that is sent in an HTTP header."""


def is_quoted(value: str) -> bool:
    """Whether a value still has quotation marks around it: no shell has removed them."""
    return len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES


def is_link(value: str) -> bool:
    """Whether this is a service link of Kubernetes, such as `tcp://10.0.0.1:80`."""
    return re.fullmatch(_LINK, value) is not None


def meant_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of settings by name, with trimmed values and without service links."""
    # A file of variables may begin with a byte order mark, which is then in its first name.
    entries = ((name.lstrip(_BYTE_ORDER_MARK), value) for name, value in environment.items())
    ours = {name: trimmed(value) for name, value in entries if name.upper().startswith(PREFIX)}
    return {
        name: value
        for name, value in ours.items()
        if not _is_of_service(name, value)
        # The operator may have set this port: it is dropped only beside a matching service host.
        or (name == _HTTP_PORT and _HTTP_SERVICE not in ours)
    }


def _is_of_service(name: str, value: str) -> bool:
    return any(names.fullmatch(name) and values.fullmatch(value) for names, values in _OF_SERVICES)
