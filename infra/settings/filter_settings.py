"""What an environment's content filters do with answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from evenflow.infra.settings.stack_settings import Settings
from evenflow.stream_core.filtering.groups import Group

# As handlers take it: an id or an ARN, and a version.
_GUARDRAIL = (
    r"^([a-z0-9]+|arn:aws(-[^:]+)?:bedrock:[a-z0-9-]{1,20}:[0-9]{12}:guardrail/[a-z0-9]+)"
    r":([1-9][0-9]{0,7}|DRAFT)$"
)
GuardrailName = Annotated[str, Field(pattern=_GUARDRAIL)]
"""`abc123:2` in this account and region, or an ARN and a version."""


class FilterSettings(Settings):
    """Content filters, which handlers apply to answers of any model.

    Args:
        mode: EVENFLOW_FILTERING, for tenants whose record says nothing.
        patterns: EVENFLOW_FILTER_PATTERNS.
        action: EVENFLOW_FILTER_ACTION.
        guardrail: EVENFLOW_FILTER_GUARDRAIL. None: no guardrail judges answers.
    """

    mode: Literal["off", "hold", "retract"] = "off"
    patterns: tuple[Group, ...] = Field(("secrets",), min_length=1)
    action: Literal["redact", "stop"] = "redact"
    guardrail: GuardrailName | None = None

    @property
    def variables(self) -> dict[str, str]:
        """A handler's variables. Those that have the default are left out."""
        given = {
            "mode": ("EVENFLOW_FILTERING", self.mode),
            "patterns": ("EVENFLOW_FILTER_PATTERNS", ",".join(self.patterns)),
            "action": ("EVENFLOW_FILTER_ACTION", self.action),
            "guardrail": ("EVENFLOW_FILTER_GUARDRAIL", self.guardrail or ""),
        }
        return dict(given[name] for name in self.model_dump(exclude_defaults=True))
