"""How handlers find workers: ECS Service Connect, a proxy in each of their tasks. One name, and another worker for each call."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_servicediscovery as servicediscovery
from constructs import Construct

from infra.constructs.log_group import log_group
from infra.constructs.security_groups import WORKER_PORT
from infra.settings import EnvironmentSettings, WorkerServiceSettings

PORT_NAME = "inference"
_ALIAS = "workers"


class ServiceConnect(Construct):
    """The namespace, and what the services of both sides say."""

    address = f"{_ALIAS}:{WORKER_PORT}"
    """Where a handler finds workers."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings) -> None:
        super().__init__(scope, construct_id)
        # Without DNS: the proxies are told by ECS.
        self._namespace = servicediscovery.HttpNamespace(
            self, "Namespace", name=settings.prefix, description="Handlers find workers here"
        )
        self._logs = log_group(self, "Logs", f"/evenflow/{settings.name}/service-connect", settings)

    @property
    def of_handlers(self) -> ecs.ServiceConnectProps:
        """They call."""
        return ecs.ServiceConnectProps(namespace=self._namespace.namespace_arn, log_driver=self._log_driver("handler"))

    def of_workers(self, workers: WorkerServiceSettings) -> ecs.ServiceConnectProps:
        """They are called."""
        return ecs.ServiceConnectProps(
            namespace=self._namespace.namespace_arn,
            log_driver=self._log_driver("worker"),
            services=[
                ecs.ServiceConnectService(
                    port_mapping_name=PORT_NAME,
                    dns_name=_ALIAS,
                    port=WORKER_PORT,
                    # An answer is one request, and has deadlines of its own; the default would cut it off after 15 s.
                    per_request_timeout=Duration.seconds(0),
                    idle_timeout=Duration.seconds(workers.idle_timeout_seconds),
                )
            ],
        )

    def _log_driver(self, role: str) -> ecs.LogDriver:
        return ecs.LogDrivers.aws_logs(stream_prefix=role, log_group=self._logs, mode=ecs.AwsLogDriverMode.NON_BLOCKING)
