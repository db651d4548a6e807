"""Nothing in the VPC is reached from the internet. Only where there are no endpoints, tasks have a
way to it.
"""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from evenflow.infra.constructs.network.security_groups import SecurityGroups, worker_security_group
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.regions import US_EAST_1
from tests.infrastructure.synthesis import Synthesis

_ENDPOINTS = {"ecr.api", "ecr.dkr", "logs", "monitoring", "secretsmanager", "ecs", "sqs"}
_MODEL_ENDPOINT = {
    "demo": set(),
    "bedrock": {"bedrock-runtime"},
    "sagemaker": {"sagemaker.runtime"},
}


def test_only_tasks_without_endpoints_have_a_way_out(synthesis: Synthesis) -> None:
    for kind in ("NatGateway", "EIP", "EgressOnlyInternetGateway"):
        assert not synthesis.of_type(f"AWS::EC2::{kind}"), kind
    for subnet in synthesis.of_type("AWS::EC2::Subnet").values():
        assert subnet["Properties"]["MapPublicIpOnLaunch"] is False
    public = synthesis.settings.network.tasks_are_public
    assert public is (synthesis.settings.name == "dev")
    assert not synthesis.of_type("AWS::EC2::Route", "network")
    routes = synthesis.of_type("AWS::EC2::Route", "service").values()
    tables = [json.dumps(route["Properties"]["RouteTableId"]) for route in routes]
    assert len(set(tables)) == len(tables) == (3 if public else 0)
    assert all("ublicSubnet" in table for table in tables)


def test_the_load_balancer_is_internal_and_no_route_leads_out_of_its_subnets(
    synthesis: Synthesis,
) -> None:
    balancer = synthesis.only("AWS::ElasticLoadBalancingV2::LoadBalancer", "service")
    assert balancer["Scheme"] == "internal"
    assert "isolated" in json.dumps(balancer["Subnets"])
    assert "ublicSubnet" not in json.dumps(balancer["Subnets"])


def test_tasks_stand_where_they_reach_what_they_call(synthesis: Synthesis) -> None:
    public = synthesis.settings.network.tasks_are_public
    for service in synthesis.of_type("AWS::ECS::Service").values():
        network = service["Properties"]["NetworkConfiguration"]["AwsvpcConfiguration"]
        assert network["AssignPublicIp"] == ("ENABLED" if public else "DISABLED")
        assert ("ublicSubnet" in json.dumps(network["Subnets"])) is public


def test_cloudfront_finds_the_internet_gateway_that_it_asks_for(synthesis: Synthesis) -> None:
    attachment = synthesis.only("AWS::EC2::VPCGatewayAttachment", "network")
    (gateway,) = synthesis.of_type("AWS::EC2::InternetGateway", "network")
    assert attachment["InternetGatewayId"] == {"Ref": gateway}


def test_each_subnet_has_addresses_that_no_setting_moves(synthesis: Synthesis) -> None:
    """Three zones, isolated and public, whether or not all of them are used."""
    network = synthesis.settings.network.cidr.removesuffix(".0.0/16")
    subnets = synthesis.of_type("AWS::EC2::Subnet", "network").items()
    assert {
        ("public" if "public" in name else "isolated", subnet["Properties"]["AvailabilityZoneId"]):
        subnet["Properties"]["CidrBlock"]
        for name, subnet in subnets
    } == {
        (kind, zone): f"{network}.{16 * (3 * row + column)}.0/20"
        for row, kind in enumerate(("isolated", "public"))
        for column, zone in enumerate(US_EAST_1.zone_ids[:3])
    }  # fmt: skip
    for service in synthesis.of_type("AWS::ECS::Service").values():
        used = service["Properties"]["NetworkConfiguration"]["AwsvpcConfiguration"]["Subnets"]
        assert len(used) == synthesis.settings.network.zones


def test_subnets_are_in_zones_that_are_the_same_in_every_account(synthesis: Synthesis) -> None:
    subnets = [
        subnet["Properties"] for subnet in synthesis.of_type("AWS::EC2::Subnet", "network").values()
    ]
    zones = {subnet["AvailabilityZoneId"] for subnet in subnets}
    assert zones == {"use1-az1", "use1-az2", "use1-az4"}
    assert not any(
        "AvailabilityZone" in subnet for subnet in subnets
    )  # a letter, which means another zone elsewhere


def test_no_zone_is_one_that_cloudfront_cannot_reach() -> None:
    """CloudFront's guide: VPC origins are supported in all zones of us-east-1 except use1-az3."""
    assert len(US_EAST_1.zone_ids) >= 3
    assert "use1-az3" not in US_EAST_1.zone_ids


def test_gpus_have_an_endpoint_too(choosy: Synthesis) -> None:
    test_what_tasks_call_has_an_endpoint(choosy)


def test_what_tasks_call_has_an_endpoint(synthesis: Synthesis) -> None:
    settings = synthesis.settings
    endpoints = [r["Properties"] for r in synthesis.of_type("AWS::EC2::VPCEndpoint").values()]
    gateways = [e for e in endpoints if e["VpcEndpointType"] == "Gateway"]
    interfaces = [e for e in endpoints if e["VpcEndpointType"] == "Interface"]

    assert {
        json.dumps(gateway["ServiceName"]).rsplit(".", 1)[-1].rstrip('"]}') for gateway in gateways
    } == {
        "s3",
        "dynamodb",
    }
    names = {
        interface["ServiceName"].removeprefix(f"com.amazonaws.{settings.region.name}.")
        for interface in interfaces
    }
    called = _ENDPOINTS | _MODEL_ENDPOINT[settings.inference.kind]
    assert names == (set() if settings.network.tasks_are_public else called)
    for interface in interfaces:
        assert interface["PrivateDnsEnabled"]
        assert len(interface["SubnetIds"]) == settings.network.endpoint_zones


def test_tasks_wait_for_their_way_to_aws(synthesis: Synthesis) -> None:
    """It is in their stack: made before them, and deleted after those that used it."""
    ways = [
        name
        for kind in ("VPCEndpoint", "Route", "SecurityGroupEgress")
        for name in synthesis.of_type(f"AWS::EC2::{kind}", "service")
        if name.startswith("TaskNetwork")
    ]
    assert len(ways) == (4 if synthesis.settings.network.tasks_are_public else 9)
    for service in synthesis.of_type("AWS::ECS::Service").values():
        assert set(ways) <= set(service["DependsOn"])


def test_security_groups_name_peers_and_ports(synthesis: Synthesis) -> None:
    rules = [
        (kind, rule["Properties"])
        for kind in ("Ingress", "Egress")
        for rule in synthesis.of_type(f"AWS::EC2::SecurityGroup{kind}", "network").values()
    ]
    assert len(rules) == 11
    for _, rule in rules:
        assert rule["IpProtocol"] == "tcp"
        assert rule["FromPort"] == rule["ToPort"]
        assert "CidrIp" not in rule
    region = synthesis.settings.region
    by_prefix_list = {
        (
            kind,
            rule.get("SourcePrefixListId") or rule.get("DestinationPrefixListId"),
            rule["ToPort"],
        )
        for kind, rule in rules
    }
    assert by_prefix_list - {(kind, None, port) for kind, _, port in by_prefix_list} == {
        ("Ingress", region.cloudfront, 80),
        ("Ingress", region.cloudfront, 443),
        ("Egress", region.dynamodb, 443),
        ("Egress", region.s3, 443),
    }


def test_a_group_has_one_rule_with_cloudfronts_prefix_list(synthesis: Synthesis) -> None:
    """It counts as 55 of the 60 that a group may have."""
    groups = [
        json.dumps(rule["Properties"]["GroupId"])
        for rule in synthesis.of_type("AWS::EC2::SecurityGroupIngress").values()
        if "SourcePrefixListId" in rule["Properties"]
    ]
    assert len(set(groups)) == len(groups) == 2
    balancer = synthesis.only("AWS::ElasticLoadBalancingV2::LoadBalancer", "service")
    assert len(balancer["SecurityGroups"]) == 2


def test_tasks_reach_each_other_where_they_follow_responses_and_nowhere_else(
    synthesis: Synthesis,
) -> None:
    (handler,) = (
        {"Fn::GetAtt": [name, "GroupId"]}
        for name, group in synthesis.of_type("AWS::EC2::SecurityGroup", "network").items()
        if group["Properties"]["GroupDescription"].startswith("Handler tasks")
    )
    for kind, peer in (
        ("Ingress", "SourceSecurityGroupId"),
        ("Egress", "DestinationSecurityGroupId"),
    ):
        rules = [
            r["Properties"]
            for r in synthesis.of_type(f"AWS::EC2::SecurityGroup{kind}", "network").values()
        ]
        within = [rule for rule in rules if rule["GroupId"] == handler == rule.get(peer)]
        assert [rule["ToPort"] for rule in within] == [8080]


def test_no_group_is_open_to_everyone(synthesis: Synthesis) -> None:
    out = list[dict[str, object]]()
    for name, template in synthesis.templates.items():
        for resource in template["Resources"].values():
            if resource["Type"].startswith("AWS::EC2::SecurityGroup"):
                properties = dict(resource["Properties"])
                egress = properties.pop("SecurityGroupEgress", ())
                if resource["Type"].endswith("Egress"):
                    egress, properties = [properties], {}
                out += [rule for rule in egress if rule.get("CidrIp") == "0.0.0.0/0"]
                assert "0.0.0.0/0" not in json.dumps(properties), name
    # Tasks without endpoints call AWS's APIs, by HTTPS.
    expected = 1 if synthesis.settings.network.tasks_are_public else 0
    assert [(rule["FromPort"], rule["ToPort"]) for rule in out] == [(443, 443)] * expected


def test_workers_without_endpoints_call_aws_over_the_internet_too() -> None:
    stack = cdk.Stack()
    vpc = ec2.Vpc(stack, "Vpc")
    settings = environment("dev")
    groups = SecurityGroups(stack, "Groups", vpc=vpc, settings=settings, own_vpc=True)
    worker_security_group(stack, "Workers", vpc=vpc, security_groups=groups, settings=settings)
    found = Template.from_stack(stack).find_resources("AWS::EC2::SecurityGroup")
    (workers,) = (group["Properties"] for name, group in found.items() if "Workers" in name)
    assert workers["SecurityGroupEgress"] == [
        {
            "CidrIp": "0.0.0.0/0",
            "Description": "AWS APIs",
            "FromPort": 443,
            "IpProtocol": "tcp",
            "ToPort": 443,
        }
    ]
    assert "SecurityGroupIngress" not in workers


def test_flows_are_logged_where_the_settings_say_so(synthesis: Synthesis, prod: Synthesis) -> None:
    assert bool(synthesis.of_type("AWS::EC2::FlowLog")) is synthesis.settings.network.flow_logs
    assert prod.only("AWS::EC2::FlowLog")["TrafficType"] == "ALL"
