"""The operator's settings for all calls to Bedrock: cache, service tier, guardrail."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

CacheTtl = Literal["5m", "1h"]
ServiceTier = Literal["default", "priority", "flex", "reserved"]
GuardrailMode = Literal["sync", "async"]

_GUARDRAIL = re.compile(
    r"(?P<id>[a-z0-9]+|arn:aws(-[^:]+)?:bedrock:[a-z0-9-]{1,20}:[0-9]{12}:guardrail/[a-z0-9]+)"
    r":(?P<version>[1-9][0-9]{0,7}|DRAFT)"
)
_SHORTEST_TTL = get_args(CacheTtl)[0]


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


@dataclass(frozen=True, slots=True)
class BedrockTerms:
    """The operator's settings for all calls. None: the service's own default.

    Args:
        cache_ttl: how long the service caches a prompt's prefix. None: no caching is requested.
        guardrail_mode: `sync` delays text until the guardrail has checked it, `async` sends it at
            once.
    """

    cache_ttl: CacheTtl | None = None
    service_tier: ServiceTier | None = None
    guardrail: Guardrail | None = None
    guardrail_mode: GuardrailMode | None = None

    def applied_to(self, call: dict[str, Any]) -> dict[str, Any]:
        """The arguments of ConverseStream with these terms.

        A cache point follows the instructions, and another the user's last message. So the next
        message of the same conversation finds the whole history in the cache.
        """
        if self.service_tier is not None:
            call["serviceTier"] = {"type": self.service_tier}
        if self.guardrail is not None:
            call["guardrailConfig"] = self._guardrail_config(self.guardrail)
        if self.cache_ttl is not None:
            point = {"cachePoint": _cache_point(self.cache_ttl)}
            if "system" in call:
                call["system"].append(point)
            if call["messages"] and call["messages"][-1]["role"] == "user":
                call["messages"][-1]["content"].append(point)
        return call

    def _guardrail_config(self, guardrail: Guardrail) -> dict[str, str]:
        config = {
            "guardrailIdentifier": guardrail.identifier,
            "guardrailVersion": guardrail.version,
        }
        return config | (
            {"streamProcessingMode": self.guardrail_mode} if self.guardrail_mode else {}
        )


def _cache_point(ttl: CacheTtl) -> dict[str, str]:
    # Not every model supports the field, and this is the default of all.
    return {"type": "default"} | ({} if ttl == _SHORTEST_TTL else {"ttl": ttl})
