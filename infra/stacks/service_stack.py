"""evenflow-<env>-service"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.data.tables import table_name
from evenflow.infra.constructs.inference.model import model_access
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.network.task_network import TaskNetwork
from evenflow.infra.constructs.service.handlers import Handlers
from evenflow.infra.constructs.service.outputs import tenants_output
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.stacks.data_stack import DataStack
from evenflow.infra.stacks.network_stack import NetworkStack


class ServiceStack(cdk.Stack):
    """The handlers, their load balancer and, where the environment has some, the workers.

    Args:
        endpoint: access to a model that has a stack of its own. None: it is made in this one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        network: NetworkStack,
        data: DataStack,
        endpoint: ModelAccess | None,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        vpc = network.network.vpc
        access = endpoint or model_access(self, settings, vpc)
        self.handlers = Handlers(
            self,
            "Service",
            settings=settings,
            task_network=TaskNetwork(
                self,
                "TaskNetwork",
                settings=settings,
                vpc=vpc,
                security_groups=network.network.security_groups,
            ),
            data=data.data,
            requests_arn=data.requests_arn,
            model_access=access,
        )
        # An output takes no import of another stack's.
        tenants_output(self, settings, table_name(settings, "Tenants"), access)
