"""What the function is told when it is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from functions.environment import agents, allowed_origins, limits, required
from stream_core.agents import Agent
from stream_core.allowed_origins import AllowedOrigins
from stream_core.limits import Limits


@dataclass(frozen=True, slots=True)
class SessionInitSettings:
    """The variables `EVENFLOW_TOKEN_KEYS_SECRET`, `EVENFLOW_TENANT_KEYS_SECRET` (both ARNs), `EVENFLOW_SESSIONS_TABLE`,
    `EVENFLOW_ALLOWED_ORIGINS` if there are any, `EVENFLOW_AGENTS_JSON` likewise, `EVENFLOW_MODEL`, and those of the limits.
    """

    token_keys_secret: str
    tenant_keys_secret: str
    sessions_table: str
    allowed_origins: AllowedOrigins
    agents: dict[str, Agent]
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ConfigurationError: one is missing or wrong.
        """
        return cls(
            token_keys_secret=required(environment, "token_keys_secret"),
            tenant_keys_secret=required(environment, "tenant_keys_secret"),
            sessions_table=required(environment, "sessions_table"),
            allowed_origins=allowed_origins(environment),
            agents=agents(environment),
            limits=limits(environment),
        )
