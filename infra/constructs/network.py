"""The VPC: isolated subnets, no NAT; AWS is reached through endpoints."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.constructs.log_group import log_group
from infra.constructs.security_groups import SecurityGroups
from infra.constructs.vpc_endpoints import VpcEndpoints
from infra.settings import EnvironmentSettings


class Network(Construct):
    """The VPC with its endpoints and security groups."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings) -> None:
        super().__init__(scope, construct_id)
        network = settings.network
        zones = settings.region.zone_ids[: network.zones]
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=settings.prefix,
            ip_addresses=ec2.IpAddresses.cidr(network.cidr),
            availability_zones=list(zones),
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20)
            ],
        )
        self._name_zones_by_id()
        self._attach_internet_gateway()
        self.security_groups = SecurityGroups(self, "SecurityGroups", vpc=self.vpc, region=settings.region)
        VpcEndpoints(self, "Endpoints", vpc=self.vpc, settings=settings, security_groups=self.security_groups)
        if network.flow_logs:
            self._log_flows(settings)
        else:
            acknowledge(self.vpc, "VPC7", "flow logs are a setting: on in prod, where they are worth their price")

    def _name_zones_by_id(self) -> None:
        # The L2 writes what it is told into the property of the letters, which mean another zone in each account.
        for subnet in self.vpc.isolated_subnets:
            resource = subnet.node.default_child
            assert isinstance(resource, ec2.CfnSubnet)  # noqa: S101 - what the L2 is made of
            resource.availability_zone_id = subnet.availability_zone
            resource.availability_zone = None

    def _attach_internet_gateway(self) -> None:
        # CloudFront makes VPC origins only in a VPC that has an internet gateway. No route leads to it.
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=self.vpc.vpc_id, internet_gateway_id=gateway.ref
        )

    def _log_flows(self, settings: EnvironmentSettings) -> None:
        destination: logs.ILogGroup = log_group(self, "FlowLogs", f"/evenflow/{settings.name}/vpc-flows", settings)
        self.vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(destination))
