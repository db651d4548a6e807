"""Nothing in the VPC has a way to the internet, nor from it."""

from __future__ import annotations

import json

from tests.infrastructure.synthesis import Synthesis

_ENDPOINTS = {"ecr.api", "ecr.dkr", "logs", "monitoring", "secretsmanager", "ecs"}
_MODEL_ENDPOINT = {"demo": set(), "bedrock": {"bedrock-runtime"}, "sagemaker": {"sagemaker.runtime"}}


def test_there_is_no_way_out_or_in(synthesis: Synthesis) -> None:
    for kind in ("NatGateway", "EIP", "EgressOnlyInternetGateway", "Route"):
        assert not synthesis.of_type(f"AWS::EC2::{kind}"), kind
    for subnet in synthesis.of_type("AWS::EC2::Subnet").values():
        assert subnet["Properties"]["MapPublicIpOnLaunch"] is False


def test_cloudfront_finds_the_internet_gateway_that_it_asks_for(synthesis: Synthesis) -> None:
    attachment = synthesis.only("AWS::EC2::VPCGatewayAttachment", "network")
    (gateway,) = synthesis.of_type("AWS::EC2::InternetGateway", "network")
    assert attachment["InternetGatewayId"] == {"Ref": gateway}


def test_subnets_are_in_as_many_zones_as_the_settings_say(synthesis: Synthesis) -> None:
    subnets = synthesis.of_type("AWS::EC2::Subnet", "network").values()
    zones = {json.dumps(subnet["Properties"]["AvailabilityZone"]) for subnet in subnets}
    assert len(subnets) == len(zones) == synthesis.settings.network.zones


def test_zones_can_be_chosen(choosy: Synthesis) -> None:
    subnets = choosy.of_type("AWS::EC2::Subnet", "network").values()
    assert [subnet["Properties"]["AvailabilityZone"] for subnet in subnets] == ["us-east-1a", "us-east-1b"]


def test_gpus_have_an_endpoint_too(choosy: Synthesis) -> None:
    test_what_tasks_call_has_an_endpoint(choosy)


def test_what_tasks_call_has_an_endpoint(synthesis: Synthesis) -> None:
    settings = synthesis.settings
    endpoints = [r["Properties"] for r in synthesis.of_type("AWS::EC2::VPCEndpoint", "network").values()]
    gateways = [e for e in endpoints if e["VpcEndpointType"] == "Gateway"]
    interfaces = [e for e in endpoints if e["VpcEndpointType"] == "Interface"]

    assert {json.dumps(gateway["ServiceName"]).rsplit(".", 1)[-1].rstrip('"]}') for gateway in gateways} == {
        "s3",
        "dynamodb",
    }
    names = {
        interface["ServiceName"].removeprefix(f"com.amazonaws.{settings.region.name}.") for interface in interfaces
    }
    assert names == _ENDPOINTS | _MODEL_ENDPOINT[settings.inference.kind]
    for interface in interfaces:
        assert interface["PrivateDnsEnabled"]
        assert len(interface["SubnetIds"]) == settings.network.endpoint_zones


def test_security_groups_name_peers_and_ports(synthesis: Synthesis) -> None:
    rules = [
        (kind, rule["Properties"])
        for kind in ("Ingress", "Egress")
        for rule in synthesis.of_type(f"AWS::EC2::SecurityGroup{kind}", "network").values()
    ]
    assert len(rules) == 9
    for _, rule in rules:
        assert rule["IpProtocol"] == "tcp"
        assert rule["FromPort"] == rule["ToPort"]
        assert "CidrIp" not in rule
    region = synthesis.settings.region
    by_prefix_list = {
        (kind, rule.get("SourcePrefixListId") or rule.get("DestinationPrefixListId"), rule["ToPort"])
        for kind, rule in rules
    }
    assert by_prefix_list - {(kind, None, port) for kind, _, port in by_prefix_list} == {
        ("Ingress", region.cloudfront, 80),
        ("Egress", region.dynamodb, 443),
        ("Egress", region.s3, 443),
    }


def test_no_group_is_open_to_everyone(synthesis: Synthesis) -> None:
    for name, template in synthesis.templates.items():
        for resource in template["Resources"].values():
            if resource["Type"].startswith("AWS::EC2::SecurityGroup"):
                assert "0.0.0.0/0" not in json.dumps(resource["Properties"]), name


def test_flows_are_logged_where_the_settings_say_so(synthesis: Synthesis, prod: Synthesis) -> None:
    assert bool(synthesis.of_type("AWS::EC2::FlowLog")) is synthesis.settings.network.flow_logs
    assert prod.only("AWS::EC2::FlowLog")["TrafficType"] == "ALL"
