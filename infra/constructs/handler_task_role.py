"""What a handler task may do."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.constructs.data_key import allow_use_of
from infra.constructs.evenflow_metric import METRIC_NAMESPACE
from infra.constructs.tables import Tables
from infra.constructs.token_source import TokenSource

_TABLE_ACTIONS = ("dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem")
_RESPONSES_TOO = ("dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem")


def handler_task_role(
    scope: Construct,
    construct_id: str,
    *,
    cluster_name: str,
    tables: Tables,
    signing_keys: secretsmanager.ISecret,
    key: kms.IKey | None,
    token_source: TokenSource,
) -> iam.Role:
    """The role: its tables, its secret, its metrics, its own status, its model; nothing else."""
    role = iam.Role(scope, construct_id, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    for table in (tables.sessions, tables.ledger, tables.responses):
        table.grant(role, *_TABLE_ACTIONS)
    tables.responses.grant(role, *_RESPONSES_TOO)
    allow_use_of(key, role)
    tasks = Stack.of(scope).format_arn(service="ecs", resource="task", resource_name=f"{cluster_name}/*")
    for statement in (
        iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[signing_keys.secret_arn]),
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],  # the service knows no finer one
            conditions={"StringEquals": {"cloudwatch:namespace": METRIC_NAMESPACE}},
        ),
        iam.PolicyStatement(actions=["ecs:DescribeTasks"], resources=[tasks]),
        *token_source.statements,
    ):
        role.add_to_policy(statement)
    acknowledge(
        role, "IAM5[Resource::*]", "cloudwatch:PutMetricData has no resources; a condition holds it to our namespace"
    )
    acknowledge(
        role,
        f"IAM5[Resource::arn:<AWS::Partition>:ecs:{Stack.of(scope).region}:<AWS::AccountId>:task/{cluster_name}/*]",
        "a task asks for its own status; its id is made when it starts, so the cluster is the bound",
    )
    return role
