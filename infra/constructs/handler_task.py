"""One handler task: its size, its container, its limits in the kernel."""

from __future__ import annotations

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs.agent_variables import agent_variables
from infra.constructs.fargate_task import add_container, fargate_task
from infra.constructs.key_secrets import KeySecrets
from infra.constructs.limit_variables import limit_variables
from infra.constructs.origin_variables import origin_variables
from infra.constructs.security_groups import HTTP_PORT, WEBSOCKET_PORT
from infra.constructs.tables import Tables
from infra.constructs.token_source import TokenSource
from infra.settings import EnvironmentSettings

CONTAINER_NAME = "handler"
# Any answer means that the process is alive. 503 says full or draining: a container restarted for that would cut everyone off.
# Without site packages and http.client it costs half the CPU (21 ms), which the event loop needs.
_ALIVE = (
    "import socket; "
    f"s = socket.create_connection(('127.0.0.1', {HTTP_PORT}), 4); "
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
    token_source: TokenSource,
) -> ecs.FargateTaskDefinition:
    """The task definition."""
    handler = settings.handler
    task = fargate_task(scope, construct_id, settings=settings, role="handler", size=handler, task_role=task_role)
    variables = {
        **_fixed_variables(settings),
        **limit_variables(settings.limits, "drain_seconds"),
        **origin_variables(settings),
        **agent_variables(settings),
        **token_source.variables,
        "EVENFLOW_SESSIONS_TABLE": tables.sessions.table_name,
        "EVENFLOW_LEDGER_TABLE": tables.ledger.table_name,
        "EVENFLOW_RESPONSES_TABLE": tables.responses.table_name,
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
    container.add_port_mappings(
        ecs.PortMapping(name="http", container_port=HTTP_PORT),
        ecs.PortMapping(name="websocket", container_port=WEBSOCKET_PORT),
    )
    files = handler.open_files
    container.add_ulimits(ecs.Ulimit(name=ecs.UlimitName.NOFILE, soft_limit=files, hard_limit=files))
    return task


def _fixed_variables(settings: EnvironmentSettings) -> dict[str, str]:
    return {
        "AWS_REGION": settings.region.name,
        # The SDK's other addresses of DynamoDB (one per account) are not known to be in the gateway endpoint's prefix list,
        # and tasks have no other way out.
        "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
        "EVENFLOW_HTTP_HOST": "0.0.0.0",  # noqa: S104 - inside the task; its security group admits the load balancer and other tasks
        "EVENFLOW_HTTP_PORT": str(HTTP_PORT),
        "EVENFLOW_WS_HOST": "0.0.0.0",  # noqa: S104
        "EVENFLOW_WS_PORT": str(WEBSOCKET_PORT),
        "EVENFLOW_STORE": "dynamodb",
        "EVENFLOW_COOKIE_SECURE": "true",  # the browser speaks to CloudFront, and only by HTTPS
        "EVENFLOW_METRICS": "cloudwatch",
        "EVENFLOW_METRICS_ENVIRONMENT": settings.name,
    }
