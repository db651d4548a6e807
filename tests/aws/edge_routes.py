"""Which request goes where, as the stacks say: CloudFront's behaviors, the load balancer's
rules, the HTTP API's routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Origin = Literal["page", "http_api", "load_balancer"]
Template = Mapping[str, Any]


@dataclass(frozen=True)
class Behavior:
    """One path pattern of CloudFront (`*` any characters, `?` one) and where it leads.

    The first that matches counts.

    Args:
        headers: the security headers that its policy adds to answers.
    """

    pattern: str
    origin: Origin
    headers: Mapping[str, str]


@dataclass(frozen=True)
class EdgeRoutes:
    """All of it, in the order in which it is looked at.

    Args:
        api_routes: route key (`POST /session`) → logical id of the function.
        idle_timeout_seconds: the load balancer's.
        sticky_cookie, sticky_seconds: what makes a client stay with a target.
        handler_patterns: the paths that the load balancer passes on.
        health_path, healthy_codes: what a target is asked, and the statuses that are health.
    """

    behaviors: tuple[Behavior, ...]
    handler_patterns: tuple[str, ...]
    api_routes: Mapping[str, str]
    idle_timeout_seconds: int
    sticky_cookie: str
    sticky_seconds: int
    health_path: str
    healthy_codes: str


def edge_routes(templates: Sequence[Template]) -> EdgeRoutes:
    """Read them from the templates of all stacks."""
    attributes = _attributes(
        _only(templates, "AWS::ElasticLoadBalancingV2::LoadBalancer")["LoadBalancerAttributes"]
    )
    group = _only(templates, "AWS::ElasticLoadBalancingV2::TargetGroup")
    stickiness = _attributes(group["TargetGroupAttributes"])
    return EdgeRoutes(
        behaviors=tuple(
            _behaviors(
                _only(templates, "AWS::CloudFront::Distribution")["DistributionConfig"],
                {
                    logical_id: _headers(policy["ResponseHeadersPolicyConfig"])
                    for template in templates
                    for logical_id, policy in _resources(
                        template, "AWS::CloudFront::ResponseHeadersPolicy"
                    )
                },
            )
        ),
        handler_patterns=tuple(p for template in templates for p in _patterns(template)),
        api_routes=dict(route for template in templates for route in _api_routes(template)),
        idle_timeout_seconds=int(attributes["idle_timeout.timeout_seconds"]),
        sticky_cookie=stickiness["stickiness.app_cookie.cookie_name"],
        sticky_seconds=int(stickiness["stickiness.app_cookie.duration_seconds"]),
        health_path=group["HealthCheckPath"],
        healthy_codes=group["Matcher"]["HttpCode"],
    )


def _behaviors(
    config: Mapping[str, Any], policies: Mapping[str, Mapping[str, str]]
) -> Iterator[Behavior]:
    origins = {origin["Id"]: _kind(origin) for origin in config["Origins"]}
    for behavior in (*config["CacheBehaviors"], config["DefaultCacheBehavior"]):
        policy = behavior.get("ResponseHeadersPolicyId")
        yield Behavior(
            behavior.get("PathPattern", "*"),
            origins[behavior["TargetOriginId"]],
            policies.get(policy["Ref"], {}) if isinstance(policy, Mapping) else {},
        )


def _headers(policy: Mapping[str, Any]) -> dict[str, str]:
    security = policy.get("SecurityHeadersConfig", {})
    headers = {
        "Content-Security-Policy": ("ContentSecurityPolicy", "ContentSecurityPolicy"),
        "Referrer-Policy": ("ReferrerPolicy", "ReferrerPolicy"),
        "X-Frame-Options": ("FrameOptions", "FrameOption"),
    }
    found = {
        name: str(security[part][value])
        for name, (part, value) in headers.items()
        if part in security
    }
    if "ContentTypeOptions" in security:
        found["X-Content-Type-Options"] = "nosniff"
    return found


def _kind(origin: Mapping[str, Any]) -> Origin:
    if "VpcOriginConfig" in origin:
        return "load_balancer"
    return "page" if "OriginAccessControlId" in origin else "http_api"


def _patterns(template: Template) -> Iterator[str]:
    for _, rule in _resources(template, "AWS::ElasticLoadBalancingV2::ListenerRule"):
        (condition,) = rule["Conditions"]
        yield from condition["PathPatternConfig"]["Values"]


def _api_routes(template: Template) -> Iterator[tuple[str, str]]:
    functions = {name for name, _ in _resources(template, "AWS::Lambda::Function")}
    integrations = dict(_resources(template, "AWS::ApiGatewayV2::Integration"))
    for _, route in _resources(template, "AWS::ApiGatewayV2::Route"):
        (integration,) = integrations.keys() & set(references(route["Target"]))
        (function,) = functions & set(references(integrations[integration]["IntegrationUri"]))
        yield route["RouteKey"], function


def references(value: Any) -> Iterator[str]:
    """The logical ids that a template's value refers to."""
    if isinstance(value, Mapping):
        if "Ref" in value:
            yield value["Ref"]
        if "Fn::GetAtt" in value:
            yield value["Fn::GetAtt"][0]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def _resources(template: Template, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == kind:
            yield logical_id, resource["Properties"]


def _only(templates: Sequence[Template], kind: str) -> Mapping[str, Any]:
    (properties,) = (
        properties for template in templates for _, properties in _resources(template, kind)
    )
    return properties


def _attributes(entries: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {entry["Key"]: entry["Value"] for entry in entries}
