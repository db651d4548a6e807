"""Hypothesis keeps no database, so that a run depends on nothing that an earlier one left, and has no deadline of its own."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit", database=None, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")
