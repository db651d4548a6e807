"""Limits of VPCs, security groups and load balancers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from tests.infrastructure.limits.deployment import Deployment, replace_first, values
from tests.infrastructure.limits.limit import Limit, count, repeated, text, too_many

_GROUP_TEXT = r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]*"
_RULE_PAGE = "AWSEC2/latest/APIReference/API_PrefixListId.html"
_VPC_PAGE = "vpc/latest/userguide/amazon-vpc-limits.html"
_RULES_PER_GROUP = 60
# vpc/latest/userguide/working-with-aws-managed-prefix-lists.html: those of CloudFront weigh 55,
# those of S3 and of DynamoDB one. CloudFront's are the only ones that come in.
_PREFIX_LIST_WEIGHTS = {"SecurityGroupIngress": 55, "SecurityGroupEgress": 1}

_LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
_RULE = f"{_LISTENER}Rule"
_BALANCER_PAGE = "elasticloadbalancing/latest/application/load-balancer-limits.html"
_CONDITION_PAGE = "elasticloadbalancing/latest/application/rule-condition-types.html"
_PATHS = "Conditions[].PathPatternConfig.Values"


def _rule_weights(deployment: Deployment) -> Iterator[str]:
    weights: Counter[str] = Counter()
    for side, weight in _PREFIX_LIST_WEIGHTS.items():
        for where, properties in deployment.resources(f"AWS::EC2::{side}"):
            group = deployment.target(properties["GroupId"], where.partition("/")[0])
            weights[f"{group} {side}"] += weight if "PrefixListId" in json.dumps(properties) else 1
        for where, properties in deployment.resources("AWS::EC2::SecurityGroup"):
            for rule in properties.get(side, ()):
                weights[f"{where} {side}"] += weight if "PrefixListId" in json.dumps(rule) else 1
    yield from too_many(weights, _RULES_PER_GROUP, "rules")


def _more_rules(deployment: Deployment) -> None:
    repeated(deployment, "AWS::EC2::SecurityGroupIngress", _RULES_PER_GROUP)


def _apostrophe(deployment: Deployment) -> None:
    """A1: the description with which no environment could be deployed."""
    for _, properties in deployment.resources("AWS::EC2::SecurityGroupIngress"):
        if "SourcePrefixListId" in properties:
            properties["Description"] = "CloudFront's VPC origin"


def _rule_descriptions(deployment: Deployment) -> Iterator[str]:
    single = text("AWS::EC2::SecurityGroupIngress", "Description", _RULE_PAGE, longest=255,
                  pattern=_GROUP_TEXT)  # fmt: skip
    yield from single.find(deployment)


def _wildcards(deployment: Deployment) -> Iterator[str]:
    found = {
        where: sum(pattern.count(sign) for pattern in patterns for sign in "*?")
        for where, properties in deployment.resources(_RULE)
        for patterns in values(properties, _PATHS)
    }
    yield from too_many(found, 5, "wildcards")


def _seven_wildcards(deployment: Deployment) -> None:
    """A2: the rule with which no environment could be deployed."""
    replace_first(
        deployment,
        _RULE,
        _PATHS,
        [
            *("/session/*", "/chat/message", "/chat/message/*/events"),
            *("/chat/message/*/presence", "/chat/message/*/entries/*/*-*"),
        ],
    )


def _listener_rules(deployment: Deployment) -> Iterator[str]:
    rules = Counter(
        deployment.target(properties["ListenerArn"], where.partition("/")[0])
        for where, properties in deployment.resources(_RULE)
    )
    yield from too_many(rules, 100, "rules")


def _condition_values(deployment: Deployment) -> Iterator[str]:
    found = {
        where: sum(
            len(config.get("Values", ()))
            for condition in properties["Conditions"]
            for config in condition.values()
            if isinstance(config, dict)
        )
        for where, properties in deployment.resources(_RULE)
    }
    yield from too_many(found, 5, "values")


def _same_priority(deployment: Deployment) -> Iterator[str]:
    used = Counter(
        f"{deployment.target(properties['ListenerArn'], where.partition('/')[0])} priority "
        f"{properties['Priority']}"
        for where, properties in deployment.resources(_RULE)
    )
    yield from too_many(used, 1, "rules")


def _interface_endpoints(deployment: Deployment) -> Iterator[str]:
    found = Counter(
        deployment.target(properties["VpcId"], where.partition("/")[0])
        for where, properties in deployment.resources("AWS::EC2::VPCEndpoint")
        if properties.get("VpcEndpointType") == "Interface"
    )
    yield from too_many(found, 50, "interface endpoints")


def _more_endpoints(deployment: Deployment) -> None:
    repeated(
        deployment,
        "AWS::EC2::VPCEndpoint",
        51,
        lambda properties, _: properties.update(VpcEndpointType="Interface"),
    )


LIMITS = (
    Limit("a security group: 60 rules a side, CloudFront's prefix list is 55 of them",
          _VPC_PAGE, _rule_weights, (_more_rules,)),
    Limit("A1: what CloudFront's rule of the load balancer may be called",
          _RULE_PAGE, _rule_descriptions, (_apostrophe,)),
    text("AWS::EC2::SecurityGroup", "GroupDescription",
         "AWSEC2/latest/APIReference/API_CreateSecurityGroup.html",
         longest=255, pattern=_GROUP_TEXT),
    *(
        text(f"AWS::EC2::{kind}", path, _RULE_PAGE, longest=255, pattern=_GROUP_TEXT)
        for kind, path in (
            ("SecurityGroupIngress", "Description"),
            ("SecurityGroupEgress", "Description"),
            ("SecurityGroup", "SecurityGroupEgress[].Description"),
        )
    ),
    count("AWS::ECS::Service", "NetworkConfiguration.AwsvpcConfiguration.SecurityGroups",
          "AmazonECS/latest/APIReference/API_AwsVpcConfiguration.html", most=5),
    count("AWS::ECS::Service", "NetworkConfiguration.AwsvpcConfiguration.Subnets",
          "AmazonECS/latest/APIReference/API_AwsVpcConfiguration.html", most=16),
    Limit("a VPC: 50 interface endpoints", _VPC_PAGE, _interface_endpoints, (_more_endpoints,)),
    Limit("A2: a listener rule: 5 wildcards", _BALANCER_PAGE, _wildcards, (_seven_wildcards,)),
    Limit("a listener rule: 5 values", _BALANCER_PAGE, _condition_values,
          (lambda deployment: replace_first(deployment, _RULE, _PATHS, ["/a"] * 6),)),
    Limit("a listener: 100 rules", _BALANCER_PAGE, _listener_rules,
          (lambda deployment: repeated(deployment, _RULE, 101),)),
    Limit("a listener: each priority once",
          "elasticloadbalancing/latest/APIReference/API_CreateRule.html", _same_priority,
          (lambda deployment: repeated(deployment, _RULE, 1),)),
    text(_RULE, f"{_PATHS}[]", _CONDITION_PAGE, longest=128,
         pattern=r"""[A-Za-z0-9_\-.$/~"'@:+&*?]+"""),
    text(_LISTENER, "DefaultActions[].FixedResponseConfig.MessageBody",
         "elasticloadbalancing/latest/APIReference/API_FixedResponseActionConfig.html",
         longest=1_024),
    text("AWS::ElasticLoadBalancingV2::TargetGroup", "Name",
         "elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html",
         longest=32, pattern="[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?", optional=True),
    text("AWS::ElasticLoadBalancingV2::LoadBalancer", "Name",
         "elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html",
         longest=32, pattern="(?!internal-)[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?",
         optional=True),
)  # fmt: skip
