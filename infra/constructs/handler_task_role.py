"""What a handler task may do."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.constructs.data_key import allow_use_of
from infra.constructs.evenflow_metric import METRIC_NAMESPACE
from infra.constructs.key_secrets import KeySecrets
from infra.constructs.request_bucket import RequestsArn, allow_on_requests
from infra.constructs.tables import Tables, allow_on_table, allow_query_of_unfinished
from infra.constructs.token_source import TokenSource

_TABLE_ACTIONS = ("dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem")
_RESPONSES_TOO = ("dynamodb:BatchWriteItem", "dynamodb:DeleteItem")
_OWN_TASK = ("ecs:DescribeTasks", "ecs:GetTaskProtection", "ecs:UpdateTaskProtection")


def handler_task_role(
    scope: Construct,
    construct_id: str,
    *,
    cluster_name: str,
    service_name: str,
    tables: Tables,
    dead_letters: sqs.IQueue,
    requests: RequestsArn,
    secrets: KeySecrets,
    key: kms.IKey | None,
    token_source: TokenSource,
) -> iam.Role:
    """The role: its tables and large requests, its dead letters, its secrets, its metrics, its own status and service, its
    model; nothing else.
    """
    role = iam.Role(scope, construct_id, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    allow_use_of(key, role, "sqs", "s3")
    stack = Stack.of(scope)
    tasks = stack.format_arn(service="ecs", resource="task", resource_name=f"{cluster_name}/*")
    service = stack.format_arn(service="ecs", resource="service", resource_name=f"{cluster_name}/{service_name}")
    for statement in (
        *(allow_on_table(table, *_TABLE_ACTIONS) for table in (tables.sessions, tables.ledger, tables.responses)),
        allow_on_table(tables.responses, *_RESPONSES_TOO),
        allow_query_of_unfinished(tables),
        iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[dead_letters.queue_arn]),
        iam.PolicyStatement(
            actions=["secretsmanager:GetSecretValue"],
            resources=[secrets.signing_keys.secret_arn, secrets.tenant_keys.secret_arn],
        ),
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],  # the service knows no finer one
            conditions={"StringEquals": {"cloudwatch:namespace": METRIC_NAMESPACE}},
        ),
        # The ECS agent sets a task's protection in the name of its role.
        iam.PolicyStatement(actions=list(_OWN_TASK), resources=[tasks]),
        iam.PolicyStatement(actions=["ecs:DescribeServices"], resources=[service]),
        *token_source.statements,
    ):
        role.add_to_policy(statement)
    acknowledge(
        role, "IAM5[Resource::*]", "cloudwatch:PutMetricData has no resources; a condition holds it to our namespace"
    )
    acknowledge(
        role,
        f"IAM5[Resource::arn:<AWS::Partition>:ecs:{stack.region}:<AWS::AccountId>:task/{cluster_name}/*]",
        "a task asks for its own status and protects itself; its id is made when it starts, so the cluster is the bound",
    )
    allow_on_requests(role, requests)
    return role
