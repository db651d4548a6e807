"""Whether somebody is woken, without whom a synthesis of staging or prod is refused."""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.infra.pager import WHOM_TO_PAGE, NobodyIsPagedError, check_somebody_is_paged
from evenflow.infra.preflight.findings import Finding, bad
from evenflow.infra.settings import EnvironmentSettings


def pager_findings(settings: EnvironmentSettings) -> Iterator[Finding]:
    """One, where nobody is named and somebody has to be."""
    try:
        check_somebody_is_paged(settings.name, settings.alarms)
    except NobodyIsPagedError:
        yield bad("pager", f"alarms of {settings.name} page nobody", WHOM_TO_PAGE)
