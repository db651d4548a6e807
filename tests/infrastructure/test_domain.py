"""An address in a zone of Route 53: its records and certificates, and TLS to the load balancer."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import aws_cdk as cdk
import pytest

from evenflow.infra.constructs.domain import DomainOutsideZoneError, domain_certificate
from evenflow.infra.settings.stack_settings import HostedZone
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.synthesis import Synthesis

_REGIONS = ("us-east-1", "eu-west-1")
_PROVEN = [{"DomainName": "chat.example.com", "HostedZoneId": "Z0123456789ABCDEFGHIJ"}]


@pytest.fixture(scope="module", params=_REGIONS)
def zoned(request: pytest.FixtureRequest, synthesized: Synthesize) -> Synthesis:
    """dev with a zone, where CloudFront's certificates are and elsewhere."""
    return synthesized(f"dev-zone/{request.param}")


def _environment(synthesis: Synthesis, stack: str) -> str:
    manifest = json.loads((synthesis.folder / "manifest.json").read_text("utf-8"))
    prefix = synthesis.settings.global_prefix if stack == "certificate" else "evenflow-dev"
    environment: str = manifest["artifacts"][f"{prefix}-{stack}"]["environment"]
    return environment.rsplit("/", 1)[-1]


def _certificate(synthesis: Synthesis, stack: str) -> tuple[str, dict[str, Any]]:
    ((name, certificate),) = synthesis.of_type(
        "AWS::CertificateManager::Certificate", stack
    ).items()
    return name, certificate["Properties"]


def test_the_name_leads_to_the_distribution(zoned: Synthesis) -> None:
    (distribution,) = zoned.of_type("AWS::CloudFront::Distribution", "edge")
    records = [r["Properties"] for r in zoned.of_type("AWS::Route53::RecordSet", "edge").values()]
    assert sorted(record["Type"] for record in records) == ["A", "AAAA"]
    for record in records:
        assert (record["Name"], record["HostedZoneId"]) == (
            "chat.example.com.",
            "Z0123456789ABCDEFGHIJ",
        )
        assert record["AliasTarget"]["DNSName"] == {"Fn::GetAtt": [distribution, "DomainName"]}


def test_its_settings_tell_the_regions_of_its_stacks(zoned: Synthesis) -> None:
    manifest = json.loads((zoned.folder / "manifest.json").read_text("utf-8"))
    regions = {
        artifact["environment"].rsplit("/", 1)[-1]
        for artifact in manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    assert set(zoned.settings.stack_regions) == regions


def test_cloudfronts_certificate_is_in_its_own_region(zoned: Synthesis) -> None:
    here = zoned.settings.region.name == "us-east-1"
    stack = "edge" if here else "certificate"
    assert _environment(zoned, stack) == "us-east-1"
    name, certificate = _certificate(zoned, stack)
    assert certificate["DomainValidationOptions"] == _PROVEN

    config = zoned.only("AWS::CloudFront::Distribution", "edge")["DistributionConfig"]
    used = json.dumps(config["ViewerCertificate"]["AcmCertificateArn"])
    assert name in used
    assert ("ExportsReader" in used) is not here
    assert config["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"
    assert config["Aliases"] == ["chat.example.com"]


def test_the_load_balancer_has_one_in_its_region_and_goes_on_speaking_http(
    zoned: Synthesis,
) -> None:
    """CloudFront uses HTTP until it has been deployed with TLS."""
    assert _environment(zoned, "service") == zoned.settings.region.name
    name, certificate = _certificate(zoned, "service")
    assert certificate["DomainValidationOptions"] == _PROVEN
    listeners = {
        listener["Properties"]["Port"]: listener["Properties"]
        for listener in zoned.of_type("AWS::ElasticLoadBalancingV2::Listener", "service").values()
    }
    assert {port: listener["Protocol"] for port, listener in listeners.items()} == {
        80: "HTTP",
        443: "HTTPS",
    }
    listener = listeners[443]
    assert listener["Certificates"] == [{"CertificateArn": {"Ref": name}}]
    assert listener["SslPolicy"] == "ELBSecurityPolicy-TLS13-1-2-2021-06"
    from_cloudfront = [
        rule["Properties"]["ToPort"]
        for rule in zoned.of_type("AWS::EC2::SecurityGroupIngress", "network").values()
        if "SourcePrefixListId" in rule["Properties"]
    ]
    assert sorted(from_cloudfront) == [80, 443]


def test_cloudfront_reaches_it_by_tls_and_passes_the_name_of_the_certificate_on(
    zoned: Synthesis,
) -> None:
    endpoint = zoned.only("AWS::CloudFront::VpcOrigin", "edge")["VpcOriginEndpointConfig"]
    assert endpoint["OriginProtocolPolicy"] == "https-only"
    assert endpoint["OriginSSLProtocols"] == ["TLSv1.2"]
    config = zoned.only("AWS::CloudFront::Distribution", "edge")["DistributionConfig"]
    (origin,) = (o["Id"] for o in config["Origins"] if "VpcOriginConfig" in o)
    behaviors = [b for b in config["CacheBehaviors"] if b["TargetOriginId"] == origin]
    assert behaviors
    # With Host, which the certificate is compared with: AWS's AllViewer, or one that names it.
    ((own, policy),) = zoned.of_type("AWS::CloudFront::OriginRequestPolicy", "edge").items()
    headers = policy["Properties"]["OriginRequestPolicyConfig"]["HeadersConfig"]
    assert "Host" in headers["Headers"]
    for behavior in behaviors:
        forwarded = behavior["OriginRequestPolicyId"]
        assert forwarded in ("216adef6-5c7f-47e4-b989-5492eafa07d3", {"Ref": own})


def test_cfn_lint_finds_nothing(zoned: Synthesis) -> None:
    """cdk-nag has found nothing either, or it would not have been synthesized."""
    for stack, template in zoned.templates.items():
        region = _environment(zoned, stack)
        found = findings(template, region)
        assert not [match for match in found if match.rule.id != "W3005"], stack


@pytest.mark.parametrize(
    ("domain_name", "zone_name", "is_in"),
    [
        ("chat.example.com", "example.com", True),
        ("example.com", "example.com", True),
        ("chat.example.org", "example.com", False),
        ("chat.badexample.com", "example.com", False),
    ],
)
def test_an_address_outside_its_zone_is_refused(
    domain_name: str, zone_name: str, is_in: bool
) -> None:
    """ACM would wait for hours for a record that can't be made."""
    stack = cdk.Stack()
    zone = HostedZone(zone_id="Z0123456789ABCDEFGHIJ", name=zone_name)
    refused = nullcontext() if is_in else pytest.raises(DomainOutsideZoneError, match=zone_name)
    with refused:
        domain_certificate(stack, "Certificate", domain_name, zone)
