"""The subnets of tasks, and their route to AWS: interface endpoints or public addresses."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from evenflow.infra.constructs.network.endpoint_policies import restrict_endpoint
from evenflow.infra.constructs.network.security_groups import SecurityGroups, private_subnets
from evenflow.infra.settings.environment_settings import EnvironmentSettings

_Service = ec2.InterfaceVpcEndpointAwsService
_ALWAYS = {
    "EcrApi": _Service.ECR,
    "EcrDocker": _Service.ECR_DOCKER,
    "Logs": _Service.CLOUDWATCH_LOGS,
    "Metrics": _Service.CLOUDWATCH_MONITORING,
    "Secrets": _Service.SECRETS_MANAGER,
    "Ecs": _Service.ECS,  # a task polls ECS for its deactivation
    "DeadLetters": _Service.SQS,
}
# A VPC takes one endpoint of a service, so the construct is named after it.
_BEDROCK = {"BedrockRuntime": _Service.BEDROCK_RUNTIME}
_MODELS = {
    "demo": {},
    "bedrock": _BEDROCK,
    "sagemaker": {"SageMakerRuntime": _Service.SAGEMAKER_RUNTIME},
}


class TaskNetwork(Construct):
    """The tasks' subnets and their way to AWS.

    It is in the stack of the tasks: there CloudFormation makes a new way before it replaces tasks,
    and deletes the old one afterwards. The VPC's stack is deployed first, so running tasks would
    lose the old way.

    Attributes:
        vpc: the VPC of the tasks.
        subnets: the subnets of tasks.
        security_groups: those of the VPC.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        vpc: ec2.IVpc,
        security_groups: SecurityGroups,
    ) -> None:
        super().__init__(scope, construct_id)
        self.vpc, self.security_groups = vpc, security_groups
        self._settings = settings
        endpoints = security_groups.endpoints
        if endpoints is None:
            self.subnets = private_subnets(vpc)
            self._allow("ToAws", cidr_ip="0.0.0.0/0")
        elif settings.network.tasks_are_public:
            self.subnets = self._in_zones(vpc.public_subnets)
            self._allow("ToAws", cidr_ip="0.0.0.0/0")
            self._route_to_the_internet()
        else:
            self.subnets = self._in_zones(vpc.isolated_subnets)
            self._allow("ToEndpoints", destination_security_group_id=endpoints.security_group_id)
            self._reach_by_endpoints(endpoints)

    def _in_zones(self, subnets: list[ec2.ISubnet]) -> ec2.SubnetSelection:
        return ec2.SubnetSelection(subnets=subnets[: self._settings.network.zones])

    def _allow(self, construct_id: str, **peer: str) -> None:
        ec2.CfnSecurityGroupEgress(
            self,
            construct_id,
            group_id=self.security_groups.handler.security_group_id,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            description="AWS APIs",
            **peer,
        )

    def _route_to_the_internet(self) -> None:
        assert isinstance(self.vpc, ec2.Vpc)  # noqa: S101 - a foreign VPC has no group of endpoints
        for number, subnet in enumerate(self.vpc.public_subnets, start=1):
            route = ec2.CfnRoute(
                self,
                f"ToInternet{number}",
                route_table_id=subnet.route_table.route_table_id,
                destination_cidr_block="0.0.0.0/0",
                gateway_id=self.vpc.internet_gateway_id,
            )
            # In one stack nothing else says so: EC2 refuses a route to a gateway that isn't
            # attached yet, and doesn't detach one while tasks have public addresses.
            route.node.add_dependency(self.vpc.node.find_child("VPCGW"))

    def _reach_by_endpoints(self, group: ec2.ISecurityGroup) -> None:
        subnets = self.vpc.isolated_subnets[: self._settings.network.endpoint_zones]
        for name, service in interface_services(self._settings).items():
            endpoint = ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=self.vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnets=subnets),
                security_groups=[group],
                open=False,
            )
            restrict_endpoint(endpoint, service.short_name, Stack.of(self), self._settings)


def interface_services(
    settings: EnvironmentSettings,
) -> dict[str, ec2.InterfaceVpcEndpointAwsService]:
    """The services that an environment's tasks call through an interface endpoint, by construct
    id.
    """
    traces = {} if settings.tracing is None else {"Traces": _Service.XRAY}
    guardrail = {} if settings.filters.guardrail is None else _BEDROCK
    return {**_ALWAYS, **_MODELS[settings.inference.kind], **guardrail, **traces}
