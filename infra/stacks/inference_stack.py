"""evenflow-<env>-sagemaker"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.inference.model import model_access
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.stacks.network_stack import NetworkStack


class InferenceStack(cdk.Stack):
    """A SageMaker endpoint with our own GPUs, which outlives the handlers that call it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        network: NetworkStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        self.model_access = model_access(self, settings, network.network.vpc)
