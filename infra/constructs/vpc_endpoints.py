"""AWS's services inside the VPC, so that tasks need no way to the internet."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.constructs.security_groups import SecurityGroups
from infra.settings import EnvironmentSettings

_Service = ec2.InterfaceVpcEndpointAwsService
_ALWAYS = {
    "EcrApi": _Service.ECR,
    "EcrDocker": _Service.ECR_DOCKER,
    "Logs": _Service.CLOUDWATCH_LOGS,
    "Metrics": _Service.CLOUDWATCH_MONITORING,
    "Secrets": _Service.SECRETS_MANAGER,
    "Ecs": _Service.ECS,  # a task asks for its own status, to learn that it is leaving
    "DeadLetters": _Service.SQS,
}
_MODELS = {
    "demo": {},
    "bedrock": {"Model": _Service.BEDROCK_RUNTIME},
    "sagemaker": {"Model": _Service.SAGEMAKER_RUNTIME},
}


class VpcEndpoints(Construct):
    """Gateway endpoints (free) for DynamoDB and S3, interface endpoints (paid by the hour and zone) for the rest."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.Vpc,
        settings: EnvironmentSettings,
        security_groups: SecurityGroups,
    ) -> None:
        super().__init__(scope, construct_id)
        vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        subnets = vpc.isolated_subnets[: settings.network.endpoint_zones]
        for name, service in interface_services(settings).items():
            ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnets=subnets),
                security_groups=[security_groups.endpoints],
                open=False,
            )


def interface_services(settings: EnvironmentSettings) -> dict[str, ec2.InterfaceVpcEndpointAwsService]:
    """The services that an environment's tasks call through an interface endpoint, by construct id."""
    return {**_ALWAYS, **_MODELS[settings.inference.kind]}
