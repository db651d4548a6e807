"""What an environment should cost in a month."""

from __future__ import annotations

from aws_cdk import Tags
from aws_cdk import aws_budgets as budgets
from constructs import Construct, IConstruct

from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics
from evenflow.infra.settings import EnvironmentSettings

_NOTICES = (("ACTUAL", 80), ("FORECASTED", 100))
"""What is compared with the budget, and the percentage of it above which a notice is sent."""

_VPC_ORIGIN = "AWS::CloudFront::VpcOrigin"


class MonthlyBudget(Construct):
    """A budget of AWS Budgets, over what has this environment's tags.

    All of `service` gets them: in an app that isn't ours they may not be there. Tags count once
    they are activated as cost-allocation tags. Until then nothing has cost anything by them, and no
    notice is sent.

    Args:
        service: the construct or the stack whose costs count.
        dollars: of a month.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        topics: AlarmTopics,
        service: IConstruct,
        dollars: int,
    ) -> None:
        super().__init__(scope, construct_id)
        for name, value in settings.cost_tags.items():
            # A VPC origin in use can't be changed, and costs nothing.
            Tags.of(service).add(name, value, exclude_resource_types=[_VPC_ORIGIN])
        topics.let_budgets_publish()
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                # Budgets are the account's, not a region's.
                budget_name=settings.global_prefix,
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=dollars, unit="USD"),
                metrics=["UnblendedCost"],
                filter_expression=_of_environment(settings),
            ),
            notifications_with_subscribers=[
                _notice(kind, percent, _subscribers(settings, topics)) for kind, percent in _NOTICES
            ],
        )


def _of_environment(settings: EnvironmentSettings) -> budgets.CfnBudget.ExpressionProperty:
    return budgets.CfnBudget.ExpressionProperty(
        and_=[
            budgets.CfnBudget.ExpressionProperty(
                tags=budgets.CfnBudget.TagValuesProperty(
                    key=name, values=[value], match_options=["EQUALS"]
                )
            )
            for name, value in settings.cost_tags.items()
        ]
    )


def _subscribers(
    settings: EnvironmentSettings, topics: AlarmTopics
) -> list[budgets.CfnBudget.SubscriberProperty]:
    addresses = [("SNS", topics.notices.topic_arn)]
    # The address for notices has subscribed to their topic.
    if settings.alarms.notice_email is None and settings.alarms.page_email is not None:
        addresses.append(("EMAIL", settings.alarms.page_email))
    return [
        budgets.CfnBudget.SubscriberProperty(subscription_type=kind, address=address)
        for kind, address in addresses
    ]


def _notice(
    kind: str, percent: int, subscribers: list[budgets.CfnBudget.SubscriberProperty]
) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            notification_type=kind,
            comparison_operator="GREATER_THAN",
            threshold=percent,
            threshold_type="PERCENTAGE",
        ),
        subscribers=subscribers,
    )
