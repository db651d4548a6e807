"""The origins whose pages may call, as the variable that handlers and functions read."""

from __future__ import annotations

from infra.settings import EnvironmentSettings


def origin_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """`EVENFLOW_ALLOWED_ORIGINS`, where there are any."""
    origins = ",".join(settings.allowed_origins)
    return {"EVENFLOW_ALLOWED_ORIGINS": origins} if origins else {}
