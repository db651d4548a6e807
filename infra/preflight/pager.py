"""Checks that alarms page a person: an address is set, and has been confirmed."""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.preflight.findings import PreflightFinding, bad, good, unanswered, warning
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.observability_settings import (
    WHOM_TO_PAGE,
    NobodyIsPagedError,
    check_somebody_is_paged,
)

_NO_TOPIC = ("NotFound", "NotFoundException")
_PENDING = "PendingConfirmation"


def pager_findings(settings: EnvironmentSettings) -> Iterator[PreflightFinding]:
    """A finding, if the environment must have a receiver of pages and has none."""
    try:
        check_somebody_is_paged(settings.name, settings.alarms)
    except NobodyIsPagedError:
        yield bad("pager", f"alarms of {settings.name} page nobody", WHOM_TO_PAGE)


def subscription_findings(
    account: AwsAccount,
    settings: EnvironmentSettings,
    account_id: str,
    *,
    is_deployed: bool = False,
) -> Iterator[PreflightFinding]:
    """A finding for each address that gets the environment's alarms.

    Args:
        is_deployed: whether the environment is deployed, so a missing subscription is bad.
    """
    alarms, region = settings.alarms, settings.region.name
    for topic, email in (("pages", alarms.page_email), ("notices", alarms.notices_to)):
        if email is not None:
            arn = f"arn:aws:sns:{region}:{account_id}:{settings.prefix}-{topic}"
            yield _subscription(account, f"alarms, {topic}", arn, email, is_deployed=is_deployed)


def _subscription(
    account: AwsAccount, name: str, topic_arn: str, email: str, *, is_deployed: bool
) -> PreflightFinding:
    bad_or_warning = bad if is_deployed else warning
    try:
        subscriptions = _subscriptions(account, topic_arn)
    except AwsCallError as error:
        if error.code not in _NO_TOPIC:
            return unanswered(name, error)
        if is_deployed:
            return bad(name, f"there is no topic {topic_arn}", "deploy the environment")
        return good(name, f"{email} gets a mail from SNS when it is deployed: confirm it there")
    if email not in subscriptions:
        return bad_or_warning(
            name, f"{email} is not subscribed to {topic_arn}", "deploy, and confirm"
        )
    if subscriptions[email] == _PENDING:
        return bad_or_warning(
            name,
            f"{email} has not confirmed, so it is sent no alarm",
            "open the link in the mail of no-reply@sns.amazonaws.com; if it is gone or older than "
            f"two days: `aws sns subscribe --topic-arn {topic_arn} --protocol email "
            f"--notification-endpoint {email}` sends another",
        )
    return good(name, f"{email} has confirmed")


def _subscriptions(account: AwsAccount, topic_arn: str) -> dict[str, str]:
    """The subscriptions' ARNs by address. One that is not confirmed has none."""
    arns: dict[str, str] = {}
    token: dict[str, str] = {}
    while True:
        page = account.call("sns", "list_subscriptions_by_topic", TopicArn=topic_arn, **token)
        for each in page["Subscriptions"]:
            arns[each["Endpoint"]] = each["SubscriptionArn"]
        if not page.get("NextToken"):
            return arns
        token = {"NextToken": page["NextToken"]}
