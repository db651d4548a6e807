"""The monthly budget of an environment."""

from __future__ import annotations

from aws_cdk import Tags
from aws_cdk import aws_budgets as budgets
from constructs import Construct, IConstruct

from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics
from evenflow.infra.settings.environment_settings import EnvironmentSettings

_NOTICES = (("ACTUAL", 80), ("FORECASTED", 100))
"""The costs to compare, and the percentage of the budget above which a notice is sent."""

_VPC_ORIGIN = "AWS::CloudFront::VpcOrigin"


class MonthlyBudget(Construct):
    """A budget of AWS Budgets for the resources with this environment's tags.

    All of `service` gets the tags, since a foreign app may not set them. They count once they are
    activated as cost-allocation tags. Until then AWS sees no costs, and sends no notice.

    Args:
        service: the construct or the stack to count.
        dollars: the budget of a month.
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
                # Budgets belong to the account, not to a region.
                budget_name=settings.global_prefix,
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=dollars, unit="USD"),
                metrics=["UnblendedCost"],
                filter_expression=_of_environment(settings),
            ),
            notifications_with_subscribers=[
                _notice(kind, percent, topics.notices.topic_arn) for kind, percent in _NOTICES
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


def _notice(
    kind: str, percent: int, topic_arn: str
) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            notification_type=kind,
            comparison_operator="GREATER_THAN",
            threshold=percent,
            threshold_type="PERCENTAGE",
        ),
        subscribers=[
            budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic_arn)
        ],
    )
