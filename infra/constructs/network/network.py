"""The VPC: isolated subnets without NAT, and public ones, except behind a private front."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.front import Front, OnlyLoadBalancer
from evenflow.infra.constructs.network.endpoint_policies import restrict_endpoint
from evenflow.infra.constructs.network.security_groups import SecurityGroups
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.image_reference import ecr_image

MOST_ZONES = 3
"""The zones with subnets in a VPC of ours. NetworkSettings.zones says how many are used."""
_SUBNETS = [
    # For the load balancer: a VPC origin of CloudFront must be in private subnets.
    ec2.SubnetConfiguration(
        name="isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20
    ),
    ec2.SubnetConfiguration(
        name="public",
        subnet_type=ec2.SubnetType.PUBLIC,
        cidr_mask=20,
        map_public_ip_on_launch=False,  # tasks request their own
    ),
]


class UnreachableImageError(Exception):
    """Tasks could not pull their image."""


class Network(Construct):
    """The VPC with its subnets, gateway endpoints (free) and security groups.

    Subnets cost nothing. Those of all zones are made, with addresses that never change. So the
    number of zones and the tasks' subnets are changed in the stack of the tasks alone. That stack
    also makes the route to the internet, if tasks are in the public subnets.

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
        # CloudFront makes VPC origins only in a VPC that has an internet gateway.
        is_private = isinstance(front, OnlyLoadBalancer) and not network.tasks_are_public
        zones = settings.region.zone_ids[:MOST_ZONES]
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=settings.prefix,
            ip_addresses=ec2.IpAddresses.cidr(network.cidr),
            availability_zones=list(zones),
            reserved_azs=MOST_ZONES - len(zones) or None,
            nat_gateways=0,
            subnet_configuration=_SUBNETS[:1] if is_private else _SUBNETS,
        )
        self._name_zones_by_id()
        for subnet in self.vpc.public_subnets:
            subnet.node.try_remove_child("DefaultRoute")  # TaskNetwork has it
        self.security_groups = SecurityGroups(
            self, "SecurityGroups", vpc=self.vpc, settings=settings, own_vpc=True, front=front
        )
        self._reach_by_gateways(settings)
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

    def _reach_by_gateways(self, settings: EnvironmentSettings) -> None:
        service = ec2.GatewayVpcEndpointAwsService
        gateways = {
            "dynamodb": self.vpc.add_gateway_endpoint("DynamoDb", service=service.DYNAMODB),
            "s3": self.vpc.add_gateway_endpoint("S3", service=service.S3),
        }
        if settings.network.tasks_are_public:
            return  # and no policies: tasks may go anywhere, and pull images from other registries
        for name, gateway in gateways.items():
            restrict_endpoint(gateway, name, Stack.of(self), settings)

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
