"""Whether resources that an earlier deployment left behind would stop this one."""

from __future__ import annotations

from evenflow.infra.account.account import Account, Unanswered
from evenflow.infra.account.kept_resources import find_kept
from evenflow.infra.preflight.findings import Finding, bad, good, unanswered
from evenflow.infra.settings.environment_settings import EnvironmentSettings

_NAME = "kept resources"
_SHOWN = 3


def kept_finding(account: Account, settings: EnvironmentSettings) -> Finding:
    """Whether a name that the stacks need is taken by a resource that no stack owns."""
    try:
        resources = find_kept(account, settings)
    except Unanswered as error:
        return unanswered(_NAME, error)
    names = [resource.shown_name for resource in resources if resource.takes_name]
    if not names:
        return good(_NAME, "none that takes a name of this environment")
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return bad(
        _NAME,
        f"{', '.join(names[:_SHOWN])}{more}: no stack owns them, so CloudFormation would fail "
        "with AlreadyExists",
        "adopt or delete them, by docs/runbooks/kept-resources.md; `python -m "
        f"evenflow.infra.removal {settings.name} --region {settings.region.name} --installation "
        f"{settings.installation}` lists all",
    )
