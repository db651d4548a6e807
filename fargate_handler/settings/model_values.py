"""Values of settings that the models' adapters read too.

They are a worker's address, Bedrock's guardrail, and the words of a server's profile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

CacheTtl = Literal["5m", "1h"]
ServiceTier = Literal["default", "priority", "flex", "reserved"]
GuardrailMode = Literal["sync", "async"]

_GUARDRAIL = re.compile(
    r"(?P<id>[a-z0-9]+|arn:aws(-[^:]+)?:bedrock:[a-z0-9-]{1,20}:[0-9]{12}:guardrail/[a-z0-9]+)"
    r":(?P<version>[1-9][0-9]{0,7}|DRAFT)"
)

LENGTHS = ("max_tokens", "max_completion_tokens")
"""The names of the parameter that bounds an answer."""

ROLES = ("system", "developer")
"""The roles of instructions."""

STREAM_OPTIONS = "stream_options"

OPTIONAL_PARAMETERS = ("parallel_tool_calls", "reasoning_effort", "verbosity")
"""Parameters that can be left out: an answer without them is as valid."""

IMAGE_URL = "image_url"

_LEFT_OUT = tuple(f"-{name}" for name in (STREAM_OPTIONS, *OPTIONAL_PARAMETERS, IMAGE_URL))


def split_address(address: str) -> tuple[str, int]:
    """The host and port of `host:port` or `[host]:port`.

    Raises:
        ValueError: it is neither.
    """
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    wrong = not host or (":" in host) != bracketed or not (port.isascii() and port.isdecimal())
    if wrong or not 1 <= int(port) <= 65535:
        raise ValueError(f"{address!r} is not host:port")
    return host, int(port)


def profile_words(text: str) -> tuple[str, ...]:
    """The words of a server's profile, such as `max_completion_tokens,developer,-stream_options`.

    Raises:
        ValueError: it has an unknown word.
    """
    accepted = (*LENGTHS, *ROLES, *_LEFT_OUT)
    words = tuple(filter(None, map(str.strip, text.split(","))))
    for word in words:
        if word not in accepted:
            raise ValueError(f"has {word!r}; it is a list, with commas, of: {', '.join(accepted)}")
    return words


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A guardrail of Bedrock, and one of its versions."""

    identifier: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Guardrail:
        """Read `id:version`, with an ARN or an id, and a number or `DRAFT`.

        Raises:
            ValueError: it is not that.
        """
        match = _GUARDRAIL.fullmatch(text)
        if match is None:
            raise ValueError(
                "must be a guardrail's id or ARN, a colon and its version: `abc123:2` or "
                "`abc123:DRAFT`"
            )
        return cls(match["id"], match["version"])
