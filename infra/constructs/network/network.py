"""The VPC: isolated subnets without NAT, from which AWS is reached through endpoints. Where there
are none, tasks stand in public subnets.
"""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from evenflow.infra.acknowledge import acknowledge
from evenflow.infra.constructs.network.security_groups import SecurityGroups
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.front import Front, OnlyLoadBalancer
from evenflow.infra.image_reference import ecr_image
from evenflow.infra.settings import EnvironmentSettings
from evenflow.infra.stack_settings import NetworkSettings

_Service = ec2.InterfaceVpcEndpointAwsService
_ALWAYS = {
    "EcrApi": _Service.ECR,
    "EcrDocker": _Service.ECR_DOCKER,
    "Logs": _Service.CLOUDWATCH_LOGS,
    "Metrics": _Service.CLOUDWATCH_MONITORING,
    "Secrets": _Service.SECRETS_MANAGER,
    "Ecs": _Service.ECS,  # a task asks ECS whether it must leave
    "DeadLetters": _Service.SQS,
}
_MODELS = {
    "demo": {},
    "bedrock": {"Model": _Service.BEDROCK_RUNTIME},
    "sagemaker": {"Model": _Service.SAGEMAKER_RUNTIME},
}


class UnreachableImageError(Exception):
    """Tasks could not pull their image."""


class VpcEndpoints(Construct):
    """Gateway endpoints (free) for DynamoDB and S3, interface endpoints (paid by the hour and
    zone) for the rest.
    """

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
        groups = [security_groups.endpoints] if security_groups.endpoints else None
        vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        if settings.network.tasks_are_public:
            return
        subnets = vpc.isolated_subnets[: settings.network.endpoint_zones]
        for name, service in interface_services(settings).items():
            ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnets=subnets),
                security_groups=groups,
                open=False,
            )


def interface_services(
    settings: EnvironmentSettings,
) -> dict[str, ec2.InterfaceVpcEndpointAwsService]:
    """The services that an environment's tasks call through an interface endpoint, by construct
    id.
    """
    traces = {} if settings.tracing is None else {"Traces": _Service.XRAY}
    kind = settings.inference.kind
    # A VPC takes one endpoint of a service, and that of Bedrock's models is the guardrails', too.
    judges = settings.filters.guardrail is not None and kind != "bedrock"
    guardrails = {"Guardrail": _Service.BEDROCK_RUNTIME} if judges else {}
    return {**_ALWAYS, **_MODELS[kind], **guardrails, **traces}


class Network(Construct):
    """The VPC with its endpoints and security groups.

    Args:
        front: what calls the load balancer. None: CloudFront.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        front: Front | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        _refuse_unreachable(settings)
        network = settings.network
        zones = settings.region.zone_ids[: network.zones]
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=settings.prefix,
            ip_addresses=ec2.IpAddresses.cidr(network.cidr),
            availability_zones=list(zones),
            nat_gateways=0,
            subnet_configuration=_subnets(network),
        )
        self._name_zones_by_id()
        if not network.tasks_are_public and not isinstance(front, OnlyLoadBalancer):
            self._attach_internet_gateway()
        self.security_groups = SecurityGroups(
            self, "SecurityGroups", vpc=self.vpc, settings=settings, own_vpc=True, front=front
        )
        VpcEndpoints(
            self, "Endpoints", vpc=self.vpc, settings=settings, security_groups=self.security_groups
        )
        if network.flow_logs:
            self._log_flows(settings)
        else:
            acknowledge(
                self.vpc,
                "VPC7",
                "flow logs are a setting: on in prod, where they are worth their price",
            )

    def _name_zones_by_id(self) -> None:
        # The L2 puts these ids where the zones' letters belong, which mean other zones in each
        # account.
        for subnet in (*self.vpc.isolated_subnets, *self.vpc.public_subnets):
            resource = subnet.node.default_child
            assert isinstance(resource, ec2.CfnSubnet)  # noqa: S101 - what the L2 is made of
            resource.availability_zone_id = subnet.availability_zone
            resource.availability_zone = None

    def _attach_internet_gateway(self) -> None:
        # CloudFront makes VPC origins only in a VPC that has an internet gateway. No route leads to
        # it. Public subnets have one anyway.
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        ec2.CfnVPCGatewayAttachment(
            self,
            "InternetGatewayAttachment",
            vpc_id=self.vpc.vpc_id,
            internet_gateway_id=gateway.ref,
        )

    def _log_flows(self, settings: EnvironmentSettings) -> None:
        destination: logs.ILogGroup = log_group(
            self, "FlowLogs", f"/{settings.log_path}/vpc-flows", settings
        )
        self.vpc.add_flow_log(
            "FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(destination)
        )


def _refuse_unreachable(settings: EnvironmentSettings) -> None:
    if settings.image is None or settings.network.tasks_are_public:
        return
    image, region = ecr_image(settings.image), settings.region.name
    if image is None or image.region != region:
        raise UnreachableImageError(
            f"{settings.image} can't be reached: tasks in a VPC without a way to the internet pull "
            f"from ECR of their own region: <account>.dkr.ecr.{region}.amazonaws.com/"
            "<repository>:<tag>"
        )


def _subnets(network: NetworkSettings) -> list[ec2.SubnetConfiguration]:
    # The load balancer is in isolated ones: CloudFront asks that of a VPC origin.
    isolated = ec2.SubnetConfiguration(
        name="isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20
    )
    public = ec2.SubnetConfiguration(
        name="public",
        subnet_type=ec2.SubnetType.PUBLIC,
        cidr_mask=20,
        map_public_ip_on_launch=False,  # tasks ask for theirs
    )
    return [isolated, public] if network.tasks_are_public else [isolated]
