"""The operator's settings for all calls to Bedrock: cache, service tier, guardrail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from evenflow.fargate_handler.settings.model_values import (
    CacheTtl,
    Guardrail,
    GuardrailMode,
    ServiceTier,
)

_SHORTEST_TTL = get_args(CacheTtl)[0]


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
