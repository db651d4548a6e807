"""What the function is told when it is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from functions.environment import allowed_origins, limits, required
from stream_core.allowed_origins import AllowedOrigins
from stream_core.limits import Limits


@dataclass(frozen=True, slots=True)
class PollResponseSettings:
    """The variables `EVENFLOW_TOKEN_KEYS_SECRET` (an ARN), `EVENFLOW_RESPONSES_TABLE`, `EVENFLOW_METRICS_ENVIRONMENT`,
    `EVENFLOW_ALLOWED_ORIGINS` if there are any, and those of the limits.
    """

    token_keys_secret: str
    responses_table: str
    metrics_environment: str
    allowed_origins: AllowedOrigins
    limits: Limits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ConfigurationError: one is missing or wrong.
        """
        return cls(
            token_keys_secret=required(environment, "token_keys_secret"),
            responses_table=required(environment, "responses_table"),
            metrics_environment=required(environment, "metrics_environment"),
            allowed_origins=allowed_origins(environment),
            limits=limits(environment),
        )
