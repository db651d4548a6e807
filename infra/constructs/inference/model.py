"""The model of an environment, and access to it."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from evenflow.infra.constructs.inference.bedrock_access import BedrockAccess
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.inference.sagemaker_endpoint import SageMakerEndpoint
from evenflow.infra.settings.environment_settings import EnvironmentSettings


def model_access(scope: Construct, settings: EnvironmentSettings, vpc: ec2.IVpc) -> ModelAccess:
    """Make the model's resources: none, an inference profile of Bedrock, or a GPU endpoint."""
    match settings.inference.kind:
        case "demo":
            return ModelAccess("demo")
        case "bedrock":
            return BedrockAccess(scope, "Bedrock", settings=settings).model_access
        case "sagemaker":
            return SageMakerEndpoint(scope, "SageMaker", settings=settings, vpc=vpc).model_access
