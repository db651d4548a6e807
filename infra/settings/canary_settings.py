"""The canary: one answer a minute through the front door, over every transport."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from evenflow.infra.settings.stack_settings import Settings


class CanarySettings(Settings):
    """Who asks, and what.

    Args:
        question: its answer should take the model a second: text that comes all at once looks like
            a stream that is held back. Each answer costs.
        tenant: its key is read from the secret of the tenants' keys, where it has one.
        timeout_seconds: when Lambda ends an attempt. The next one begins after a minute.
    """

    question: str = "Count from one to sixty in words."
    tenant: str = "public"
    timeout_seconds: Annotated[int, Field(ge=10, le=60)] = 55
