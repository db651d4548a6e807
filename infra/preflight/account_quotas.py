"""Checks that the account's quotas are as large as the announced load needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.estimates.quotas import Quota
from evenflow.infra.preflight.findings import PreflightFinding, bad, good, warning

_NOT_RAISED = "NoSuchResourceException"


def quota_findings(
    account: AwsAccount, needed: Sequence[Quota], model: str
) -> Iterator[PreflightFinding]:
    """A finding for each quota. A deployment fails for a missing vCPU, not for a missing token.

    Args:
        model: the model's name in Bedrock, which is part of its quota's name; "" for none.
    """
    for quota in needed:
        try:
            value = _value(account, quota, model)
        except AwsCallError as error:
            yield bad(quota.name, str(error), "look it up in the console: Service Quotas")
            continue
        yield _quota_finding(quota, value)


def _quota_finding(quota: Quota, value: float | None) -> PreflightFinding:
    if value is None:
        return warning(
            quota.name,
            f"Service Quotas names none; {quota.needed:,.10g} are needed",
            "look for the model in the console: Service Quotas → Amazon Bedrock",
        )
    found = f"{value:,.10g}, and {quota.needed:,.10g} are needed ({quota.why})"
    if value >= quota.needed and quota.at_once < quota.needed:
        return warning(quota.name, found, f"{quota.to_do}. With less load it works as it is")
    if value >= quota.needed:
        return good(quota.name, found)
    to_do = f"ask for more: Service Quotas → {quota.service}; it can take days"
    if quota.service in {"bedrock", "dynamodb"}:
        return warning(quota.name, found, f"{to_do}. With less load it works as it is")
    return bad(quota.name, found, f"{to_do}, or make the environment smaller")


def _value(account: AwsAccount, quota: Quota, model: str) -> float | None:
    if not quota.code:
        return _by_name(account, quota, model)
    return quota_value(account, quota.service, quota.code)


def quota_value(account: AwsAccount, service: str, code: str) -> float:
    """The account's quota in its region.

    Raises:
        AwsCallError: Service Quotas refused, or has no such quota.
    """
    of_quota = {"ServiceCode": service, "QuotaCode": code}
    try:
        response = account.call("service-quotas", "get_service_quota", **of_quota)
    except AwsCallError as error:
        if error.code != _NOT_RAISED:
            raise
        response = account.call("service-quotas", "get_aws_default_service_quota", **of_quota)
    value: float = response["Quota"]["Value"]
    return value


def _by_name(account: AwsAccount, quota: Quota, model: str) -> float | None:
    """Look in the account's quotas, then in the defaults, which also list quotas never raised.

    If several names contain the model's, the shortest is the model's: others are its variants.
    """
    # "Claude Sonnet 4" is not in "Claude Sonnet 4.5".
    of_model = re.compile(re.escape(model) + r"(?!\.?\w)", re.IGNORECASE)
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        values = {
            name: value
            for name, value in _listed(account, operation, quota.service)
            if quota.is_called(name) and of_model.search(name)
        }
        if values:
            return values[min(values, key=len)]
    return None


def _listed(account: AwsAccount, operation: str, service: str) -> Iterator[tuple[str, float]]:
    token: dict[str, str] = {}
    while True:
        page = account.call("service-quotas", operation, ServiceCode=service, **token)
        for listed in page["Quotas"]:
            yield listed["QuotaName"], listed["Value"]
        if "NextToken" not in page:
            return
        token = {"NextToken": page["NextToken"]}
