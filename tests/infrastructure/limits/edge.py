"""Limits of CloudFront and of its web ACL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.infrastructure.limits.deployment import Deployment, Properties, values
from tests.infrastructure.limits.limit import Fault, Limit, count, number, size, text, too_many

_CLOUDFRONT = "AWS::CloudFront::"
_DISTRIBUTION, _CONFIG = f"{_CLOUDFRONT}Distribution", "DistributionConfig"
_QUOTAS = "AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html"
_HEADERS_PAGE = "AmazonCloudFront/latest/DeveloperGuide/add-origin-custom-headers.html"
_BEHAVIOR_PAGE = "AmazonCloudFront/latest/DeveloperGuide/DownloadDistValuesCacheBehavior.html"
_ORIGIN_PAGE = "AmazonCloudFront/latest/DeveloperGuide/DownloadDistValuesOrigin.html"
_CUSTOM_ORIGIN = f"{_CONFIG}.Origins[].CustomOriginConfig"
# Managed by AWS: AllViewer.
_ALL_VIEWER = "216adef6-5c7f-47e4-b989-5492eafa07d3"
_ACL = "AWS::WAFv2::WebACL"
_ACL_PAGE = "waf/latest/developerguide/limits.html"
# waf/latest/developerguide/aws-managed-rule-groups-list.html and …/waf-rule-statements-list.html
_GROUP_UNITS = {
    "AWSManagedRulesAmazonIpReputationList": 25,
    "AWSManagedRulesKnownBadInputsRuleSet": 200,
    "AWSManagedRulesCommonRuleSet": 700,
}
_MATCH_UNITS = {"EXACTLY": 2, "STARTS_WITH": 2, "ENDS_WITH": 2, "CONTAINS": 10, "CONTAINS_WORD": 10}
_UNITS = 1_500


def _origin_headers(deployment: Deployment) -> Iterator[str]:
    for where, properties in deployment.resources(_DISTRIBUTION):
        for origin in properties[_CONFIG]["Origins"]:
            headers = origin.get("OriginCustomHeaders", [])
            if len(headers) > 30:
                yield f"{where}: {len(headers)} headers"
            for header in headers:
                name = header["HeaderName"]
                if name.lower().startswith(("x-amz-", "x-edge-")) or name.lower() in _RESERVED:
                    yield f"{where}: {name}"
                value = deployment.text(header["HeaderValue"], where.partition("/")[0])
                if len(name) > 256 or len(value) > 1_783:
                    yield f"{where}: {name} has {len(value)} characters"


_RESERVED = {"cache-control", "connection", "content-length", "cookie", "host", "upgrade", "via"}


def _origin_header(name: str, value: str = "1", times: int = 1) -> Fault:
    def fault(deployment: Deployment) -> None:
        origin = deployment.first(_DISTRIBUTION)[_CONFIG]["Origins"][0]
        origin["OriginCustomHeaders"] = [{"HeaderName": name, "HeaderValue": value}] * times

    return fault


def _forwarded_headers(deployment: Deployment) -> Iterator[str]:
    """CloudFront takes these two from cache policies alone."""
    path = "OriginRequestPolicyConfig.HeadersConfig.Headers[]"
    for where, properties in deployment.resources(f"{_CLOUDFRONT}OriginRequestPolicy"):
        for header in values(properties, path):
            if header.lower() in ("authorization", "accept-encoding"):
                yield f"{where}: {header}"


def _policy(headers: list[str]) -> Properties:
    config = {"HeadersConfig": {"HeaderBehavior": "whitelist", "Headers": headers}, "Name": "own"}
    return {"OriginRequestPolicyConfig": config}


def _own_policy(headers: list[str]) -> Fault:
    """A policy of our own in place of AWS's wherever handlers are asked."""

    def fault(deployment: Deployment) -> None:
        for template in deployment.templates.values():
            for resource in list(template["Resources"].values()):
                if resource["Type"] == _DISTRIBUTION:
                    template["Resources"]["OwnPolicy"] = {
                        "Type": f"{_CLOUDFRONT}OriginRequestPolicy",
                        "Properties": _policy(headers),
                    }
                    for behavior in resource["Properties"][_CONFIG]["CacheBehaviors"]:
                        if behavior.get("OriginRequestPolicyId") == _ALL_VIEWER:
                            behavior["OriginRequestPolicyId"] = {"Ref": "OwnPolicy"}

    return fault


def _unreachable_origins(deployment: Deployment) -> Iterator[str]:
    """CloudFront compares the certificate of an HTTPS origin with the Host that it sends."""
    protocols = {
        where: properties["VpcOriginEndpointConfig"]["OriginProtocolPolicy"]
        for where, properties in deployment.resources(f"{_CLOUDFRONT}VpcOrigin")
    }
    covered = {
        properties["DomainName"]
        for _, properties in deployment.resources("AWS::CertificateManager::Certificate")
    }
    for where, properties in deployment.resources(_DISTRIBUTION):
        stack = where.partition("/")[0]
        config = properties[_CONFIG]
        secured = {
            origin["Id"]
            for origin in config["Origins"]
            for vpc_origin in values(origin, "VpcOriginConfig.VpcOriginId")
            if protocols[deployment.target(vpc_origin, stack)] == "https-only"
        }
        if secured and not set(config.get("Aliases", ())) <= covered:
            yield f"{where}: {config.get('Aliases')} are not in a certificate"
        for behavior in config["CacheBehaviors"]:
            if behavior["TargetOriginId"] in secured and not _forwards_host(
                deployment, behavior.get("OriginRequestPolicyId"), stack
            ):
                yield f"{where}: {behavior['PathPattern']} is sent without the viewer's Host"


def _forwards_host(deployment: Deployment, policy: Any, stack: str) -> bool:
    if isinstance(policy, str):
        return policy == _ALL_VIEWER
    own = dict(deployment.resources(f"{_CLOUDFRONT}OriginRequestPolicy"))
    config = own.get(deployment.target(policy, stack), {}).get("OriginRequestPolicyConfig", {})
    headers = config.get("HeadersConfig", {})
    listed = "host" in {header.lower() for header in headers.get("Headers", ())}
    match headers.get("HeaderBehavior"):
        case "whitelist":
            return listed
        case "allExcept":
            return not listed
        case behavior:
            return behavior in ("allViewer", "allViewerAndWhitelistCloudFront")


def _other_alias(deployment: Deployment) -> None:
    deployment.first(_DISTRIBUTION)[_CONFIG]["Aliases"] = ["other.example.com"]


def _units(deployment: Deployment) -> Iterator[str]:
    acls = {
        where: sum(_units_of(rule["Statement"]) for rule in properties["Rules"])
        for where, properties in deployment.resources(_ACL)
    }
    yield from too_many(acls, _UNITS, "capacity units")


def _units_of(statement: Properties) -> int:
    """The capacity units of one statement and of those in it."""
    ((kind, found),) = statement.items()
    match kind:
        case "ManagedRuleGroupStatement":
            return _GROUP_UNITS[found["Name"]]
        case "RateBasedStatement":
            return 2 + _units_of(found["ScopeDownStatement"])
        case "AndStatement" | "OrStatement":
            return sum(_units_of(inner) for inner in found["Statements"])
        case "NotStatement":
            return _units_of(found["Statement"])
        case "ByteMatchStatement":
            return _MATCH_UNITS[found["PositionalConstraint"]] + _form_units(found)
        case "SizeConstraintStatement" | "RegexMatchStatement":
            return (1 if kind == "SizeConstraintStatement" else 3) + _form_units(found)
    raise AssertionError(f"the capacity units of {kind} are not known here: add them")


def _form_units(statement: Properties) -> int:
    """Those of its text transformations. NONE weighs nothing."""
    forms = [form for form in statement["TextTransformations"] if form["Type"] != "NONE"]
    return 10 * len(forms)


def _more_groups(deployment: Deployment) -> None:
    rules = deployment.first(_ACL)["Rules"]
    deployment.first(_ACL)["Rules"] = [*rules, *rules[-1:]]


def _rate_rules(deployment: Deployment) -> Iterator[str]:
    acls = {
        where: sum("RateBasedStatement" in rule["Statement"] for rule in properties["Rules"])
        for where, properties in deployment.resources(_ACL)
    }
    yield from too_many(acls, 10, "rate-based rules")


def _more_rates(deployment: Deployment) -> None:
    deployment.first(_ACL)["Rules"] *= 6


def _policy_counts() -> Iterator[Limit]:
    for kind, path in (
        ("CachePolicy", "CachePolicyConfig.ParametersInCacheKeyAndForwardedToOrigin."),
        ("OriginRequestPolicy", "OriginRequestPolicyConfig."),
    ):
        for what in ("HeadersConfig.Headers", "QueryStringsConfig.QueryStrings"):
            limit = count(f"{_CLOUDFRONT}{kind}", path + what, _QUOTAS, most=10)
            if kind == "OriginRequestPolicy":
                limit = Limit(limit.name, limit.page, limit.find, (_long_policy(what),))
            yield limit


def _long_policy(what: str) -> Fault:
    part, _, name = what.partition(".")

    def fault(deployment: Deployment) -> None:
        _own_policy(["Host"])(deployment)
        config = deployment.first(f"{_CLOUDFRONT}OriginRequestPolicy")["OriginRequestPolicyConfig"]
        config[part] = {name: [f"x-{number}" for number in range(11)]}

    return fault


LIMITS = (
    count(_DISTRIBUTION, f"{_CONFIG}.CacheBehaviors", _QUOTAS, most=75),
    count(_DISTRIBUTION, f"{_CONFIG}.Origins", _QUOTAS, most=100),
    text(f"{_CLOUDFRONT}ResponseHeadersPolicy",
         "ResponseHeadersPolicyConfig.SecurityHeadersConfig.ContentSecurityPolicy"
         ".ContentSecurityPolicy", _QUOTAS, longest=1_783),
    count(_DISTRIBUTION, f"{_CONFIG}.Aliases", _QUOTAS, most=100, on="choosy"),
    text(_DISTRIBUTION, f"{_CONFIG}.CacheBehaviors[].PathPattern", _BEHAVIOR_PAGE,
         longest=255, pattern=r"""[A-Za-z0-9_\-.*$/~"'@:+&?]+"""),
    text(_DISTRIBUTION, f"{_CONFIG}.Comment",
         "cloudfront/latest/APIReference/API_DistributionConfig.html", longest=128),
    number(_DISTRIBUTION, f"{_CUSTOM_ORIGIN}.OriginReadTimeout", _ORIGIN_PAGE, least=1, most=120),
    number(_DISTRIBUTION, f"{_CUSTOM_ORIGIN}.OriginKeepaliveTimeout", _ORIGIN_PAGE,
           least=1, most=120),
    Limit("an origin's own headers: which, how many, and how long", _HEADERS_PAGE,
          _origin_headers,
          (_origin_header("X-Edge-Key"), _origin_header("Host"), _origin_header("a", "x" * 1_784),
           _origin_header("a", times=31))),
    Limit("an origin request policy: neither Authorization nor Accept-Encoding by name",
          "AmazonCloudFront/latest/DeveloperGuide/add-origin-custom-headers.html"
          "#add-origin-custom-headers-forward-authorization",
          _forwarded_headers, (_own_policy(["Host", "Authorization"]),)),
    *_policy_counts(),
    size(f"{_CLOUDFRONT}Function", "FunctionCode", _QUOTAS, most=10 * 1_024),
    *(
        text(f"{_CLOUDFRONT}{kind}", path, f"cloudfront/latest/APIReference/{page}.html",
             longest=longest, pattern=r"[a-zA-Z0-9_-]+")
        for kind, path, page, longest in (
            ("Function", "Name", "API_CreateFunction", 64),
            ("OriginAccessControl", "OriginAccessControlConfig.Name",
             "API_OriginAccessControlConfig", 64),
            ("CachePolicy", "CachePolicyConfig.Name", "API_CachePolicyConfig", 128),
            ("ResponseHeadersPolicy", "ResponseHeadersPolicyConfig.Name",
             "API_ResponseHeadersPolicyConfig", 128),
            ("VpcOrigin", "VpcOriginEndpointConfig.Name", "API_VpcOriginEndpointConfig", 64),
        )
    ),
    Limit("an origin that speaks TLS: CloudFront sends the Host of its certificate", _ORIGIN_PAGE,
          _unreachable_origins, (_own_policy(["Origin"]), _other_alias),
          on="prod-zone/eu-west-1/acme"),
    Limit("a web ACL: 1,500 capacity units", _ACL_PAGE, _units, (_more_groups,)),
    Limit("a web ACL: 10 rate-based rules", _ACL_PAGE, _rate_rules, (_more_rates,)),
    size(_ACL, "CustomResponseBodies", _ACL_PAGE, most=4 * 1_024),
)  # fmt: skip
