"""The handler's task: its size, container, kernel limits and role."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge, in_findings
from evenflow.infra.constructs.data.buckets import BucketArn, allow_on_requests
from evenflow.infra.constructs.data.keys import KeySecrets, allow_use_of
from evenflow.infra.constructs.data.tables import Tables, allow_on_table, allow_query_of_unfinished
from evenflow.infra.constructs.inference.model_access import ModelAccess, guardrail_statements
from evenflow.infra.constructs.metrics import METRIC_NAMESPACE
from evenflow.infra.constructs.network.security_groups import HANDLER_PORT
from evenflow.infra.constructs.service.fargate_task import add_container, fargate_task
from evenflow.infra.constructs.variables import (
    answer_variables,
    limit_variables,
    oidc_variables,
    open_tenant_variables,
    origin_variables,
    price_variables,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.inference_settings import FilterSettings

_ITEM_ACTIONS = ("dynamodb:GetItem", "dynamodb:UpdateItem")
# Tasks look up which sessions were ended, many at once.
_SESSION_ACTIONS = (*_ITEM_ACTIONS, "dynamodb:BatchGetItem")
_LEDGER_ACTIONS = (
    *_ITEM_ACTIONS, "dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:Query",
)  # fmt: skip
# Tasks read many responses at once, and many reservations.
_RESPONSE_ACTIONS = (*_LEDGER_ACTIONS, "dynamodb:BatchGetItem", "dynamodb:DeleteItem")
# Tasks of the version before write their activity in batches: they still run while this policy is
# deployed.
_TENANT_ACTIONS = _RESPONSE_ACTIONS
_OWN_TASK = ("ecs:DescribeTasks", "ecs:GetTaskProtection", "ecs:UpdateTaskProtection")


def handler_task_role(
    scope: Construct,
    construct_id: str,
    *,
    cluster_name: str,
    service_name: str,
    tables: Tables,
    dead_letters: sqs.IQueue,
    requests: BucketArn,
    secrets: KeySecrets,
    key: kms.IKey | None,
    model_access: ModelAccess,
    filters: FilterSettings,
) -> iam.Role:
    """The handler's role, with permission for nothing but what it needs.

    That is its tables, large requests, dead letters, secrets, metrics, its own task's state,
    its model, and the content filters' guardrail.
    """
    role = iam.Role(scope, construct_id, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    allow_use_of(key, role, "sqs", "s3")
    stack = Stack.of(scope)
    tasks = stack.format_arn(service="ecs", resource="task", resource_name=f"{cluster_name}/*")
    service = stack.format_arn(
        service="ecs", resource="service", resource_name=f"{cluster_name}/{service_name}"
    )
    for statement in (
        allow_on_table(tables.sessions, *_SESSION_ACTIONS),
        allow_on_table(tables.ledger, *_LEDGER_ACTIONS),
        allow_on_table(tables.responses, *_RESPONSE_ACTIONS),
        allow_on_table(tables.tenants, *_TENANT_ACTIONS),
        allow_query_of_unfinished(tables),
        iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[dead_letters.queue_arn]),
        iam.PolicyStatement(
            actions=["secretsmanager:GetSecretValue"],
            resources=[secrets.signing_keys.secret_arn, secrets.tenant_keys.secret_arn],
        ),
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],  # the service has no finer ones
            conditions={"StringEquals": {"cloudwatch:namespace": METRIC_NAMESPACE}},
        ),
        # The ECS agent sets a task's protection with the task's role.
        iam.PolicyStatement(actions=list(_OWN_TASK), resources=[tasks]),
        iam.PolicyStatement(actions=["ecs:DescribeServices"], resources=[service]),
        *guardrail_statements(stack, filters.guardrail),
    ):
        role.add_to_policy(statement)
    model_access.allow(role)
    _acknowledge_wildcards(role, cluster_name)
    allow_on_requests(role, requests)
    return role


def _acknowledge_wildcards(role: iam.Role, cluster_name: str) -> None:
    acknowledge(
        role,
        "IAM5[Resource::*]",
        "cloudwatch:PutMetricData has no resources; a condition holds it to our namespace",
    )
    acknowledge(
        role,
        f"IAM5[Resource::arn:<AWS::Partition>:ecs:{Stack.of(role).region}"
        f":<AWS::AccountId>:task/{in_findings(role, cluster_name)}/*]",
        "a task asks for its own status and protects itself; its id is made when it starts, so "
        "the cluster is the bound",
    )


CONTAINER_NAME = "handler"
# Any answer means that the process is alive. 503 means full or draining: a restart for that would
# cut everyone off. Without site packages and http.client it takes half the CPU (21 ms), which the
# event loop needs.
_ALIVE = (
    "import socket; "
    f"s = socket.create_connection(('127.0.0.1', {HANDLER_PORT}), 4); "
    "s.sendall(b'GET /health HTTP/1.0\\r\\n\\r\\n'); "
    "raise SystemExit(s.recv(12)[9:] not in (b'200', b'503'))"
)
_SYSTEM_CONTROLS = {
    "net.core.somaxconn": "16384",  # a burst of handshakes waits here instead of being refused
    "net.ipv4.tcp_keepalive_time": "120",
}


def handler_task(
    scope: Construct,
    construct_id: str,
    *,
    settings: EnvironmentSettings,
    task_role: iam.IRole,
    tables: Tables,
    dead_letters: sqs.IQueue,
    requests: s3.IBucket,
    secrets: KeySecrets,
    model_access: ModelAccess,
    front: Mapping[str, str],
) -> ecs.FargateTaskDefinition:
    """The task definition.

    Args:
        front: the variables of the front: proxies and public address.
    """
    handler = settings.handler
    task = fargate_task(
        scope, construct_id, settings=settings, role="handler", size=handler, task_role=task_role
    )
    variables = {
        **_fixed_variables(settings),
        **front,
        **limit_variables(settings.limits, "drain_seconds"),
        **origin_variables(settings),
        **open_tenant_variables(settings),
        **answer_variables(settings),
        **oidc_variables(settings),
        **model_access.variables,
        **price_variables(settings, model_access.name_in_log),
        "EVENFLOW_SESSIONS_TABLE": tables.sessions.table_name,
        "EVENFLOW_LEDGER_TABLE": tables.ledger.table_name,
        "EVENFLOW_RESPONSES_TABLE": tables.responses.table_name,
        "EVENFLOW_TENANTS_TABLE": tables.tenants.table_name,
        "EVENFLOW_DEAD_LETTERS_QUEUE": dead_letters.queue_url,
        "EVENFLOW_REQUESTS_BUCKET": requests.bucket_name,
        "EVENFLOW_TOKEN_KEYS_SECRET": secrets.signing_keys.secret_arn,
        "EVENFLOW_TENANT_KEYS_SECRET": secrets.tenant_keys.secret_arn,
    }
    container = add_container(
        scope,
        task,
        settings=settings,
        role="handler",
        size=handler,
        variables=variables,
        alive=["python", "-IS", "-c", _ALIVE],
        system_controls=_SYSTEM_CONTROLS,
    )
    container.add_port_mappings(ecs.PortMapping(name="http", container_port=HANDLER_PORT))
    files = handler.open_files
    container.add_ulimits(
        ecs.Ulimit(name=ecs.UlimitName.NOFILE, soft_limit=files, hard_limit=files)
    )
    return task


def _fixed_variables(settings: EnvironmentSettings) -> dict[str, str]:
    return {
        "AWS_REGION": settings.region.name,
        # The SDK may use another address of DynamoDB for each account. It is not known whether the
        # gateway endpoint's prefix list has these, and tasks have no other way out.
        "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
        "EVENFLOW_HTTP_HOST": "0.0.0.0",  # noqa: S104 - the security group limits access
        "EVENFLOW_HTTP_PORT": str(HANDLER_PORT),
        "EVENFLOW_STORE": "dynamodb",
        "EVENFLOW_METRICS": "cloudwatch",
        "EVENFLOW_METRICS_ENVIRONMENT": settings.prefix,
    }
