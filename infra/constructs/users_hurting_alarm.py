"""The one alarm that says that users are hurting, whatever the cause."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from infra.constructs.alarm_topics import AlarmTopics
from infra.constructs.runbook_alarm import RunbookAlarm, Urgency
from infra.settings import EnvironmentSettings

USERS_ARE_HURTING = "users-are-hurting"


def users_hurting_alarm(
    scope: Construct, *, settings: EnvironmentSettings, topics: AlarmTopics, alarms: list[RunbookAlarm]
) -> cloudwatch.CompositeAlarm:
    """Raised while any alarm that readers feel is: one page for an incident, not one for each of its signs.

    Args:
        alarms: all there are; those that readers do not feel are left out.
    """
    felt = [alarm for alarm in alarms if alarm.urgency is Urgency.FELT]
    composite = cloudwatch.CompositeAlarm(
        scope,
        "UsersAreHurting",
        composite_alarm_name=f"{settings.prefix}-{USERS_ARE_HURTING}",
        alarm_description="Readers of answers feel that something is wrong: at least one of the alarms below is raised. "
        f"What to do: {settings.alarms.runbook_base_url}{USERS_ARE_HURTING}.md",
        alarm_rule=cloudwatch.AlarmRule.any_of(
            *(cloudwatch.AlarmRule.from_alarm(alarm, cloudwatch.AlarmState.ALARM) for alarm in felt)
        ),
    )
    for topic in (topics.notices, topics.pages):
        composite.add_alarm_action(actions.SnsAction(topic))
        composite.add_ok_action(actions.SnsAction(topic))
    return composite
