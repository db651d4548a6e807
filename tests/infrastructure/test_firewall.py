"""The web ACL: who is bounded by it, and what it lets through."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest

from evenflow.infra.environments import environment
from evenflow.infra.stack_settings import FirewallSettings
from evenflow.infra.stacks.firewall_stack import FirewallStack
from tests.infrastructure.synthesis import Synthesis


@pytest.fixture(params=["staging", "prod"])
def guarded(request: pytest.FixtureRequest) -> Synthesis:
    """An environment with users."""
    found: Synthesis = request.getfixturevalue(request.param)
    return found


def _rules(synthesis: Synthesis) -> dict[str, Any]:
    return {
        rule["Name"]: rule for rule in synthesis.only("AWS::WAFv2::WebACL", "firewall")["Rules"]
    }


def test_it_stands_before_the_distribution_wherever_the_rest_is(guarded: Synthesis) -> None:
    web_acl = guarded.only("AWS::WAFv2::WebACL", "firewall")
    assert (web_acl["Scope"], web_acl["DefaultAction"]) == ("CLOUDFRONT", {"Allow": {}})
    manifest = json.loads((guarded.folder / "manifest.json").read_text("utf-8"))
    stack = manifest["artifacts"][f"{guarded.settings.global_prefix}-firewall"]
    assert stack["environment"].endswith("/us-east-1")
    distribution = guarded.only("AWS::CloudFront::Distribution", "edge")["DistributionConfig"]
    assert "firewall" in json.dumps(distribution["WebACLId"])


def test_it_is_in_the_region_of_cloudfronts_web_acls_for_an_environment_elsewhere() -> None:
    staging = environment("staging")
    region = staging.region.model_copy(update={"name": "eu-central-1"})
    stack = FirewallStack(
        cdk.App(),
        "firewall",
        settings=staging.model_copy(update={"region": region}),
        firewall=FirewallSettings(),
    )
    assert stack.region == "us-east-1"


def test_dev_has_none_and_one_of_ones_own_stands_in_its_place(
    dev: Synthesis, choosy: Synthesis
) -> None:
    for synthesis in (dev, choosy):
        assert not synthesis.of_type("AWS::WAFv2::WebACL")
    distribution = choosy.only("AWS::CloudFront::Distribution", "edge")["DistributionConfig"]
    assert distribution["WebACLId"] == choosy.settings.edge.web_acl_arn


def test_a_prompt_passes_however_large_and_whatever_it_says(guarded: Synthesis) -> None:
    """Rules on bodies are counted; those on addresses, heads and queries block."""
    counted = {
        override["Name"]
        for rule in _rules(guarded).values()
        for override in rule["Statement"]
        .get("ManagedRuleGroupStatement", {})
        .get("RuleActionOverrides", ())
        if override["ActionToUse"] == {"Count": {}}
    }
    assert counted == {
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "CrossSiteScripting_BODY",
        "SizeRestrictions_BODY",
        "JavaDeserializationRCE_BODY",
        "Log4JRCE_BODY",
        "ReactJSRCE_BODY",
        "NoUserAgent_HEADER",
        "RestrictedExtensions_URIPATH",
    }
    groups = {name for name, rule in _rules(guarded).items() if "OverrideAction" in rule}
    assert groups == {
        "AWSManagedRulesAmazonIpReputationList",
        "AWSManagedRulesKnownBadInputsRuleSet",
        "AWSManagedRulesCommonRuleSet",
    }
    assert all(_rules(guarded)[name]["OverrideAction"] == {"None": {}} for name in groups)


def test_an_address_is_bounded_in_five_minutes_and_told_so_in_the_contracts_shape(
    guarded: Synthesis,
) -> None:
    bodies = guarded.only("AWS::WAFv2::WebACL", "firewall")["CustomResponseBodies"]
    limits = {}
    for name in ("SessionsWithoutKey", "Requests"):
        rule = _rules(guarded)[name]
        answer = rule["Action"]["Block"]["CustomResponse"]
        assert answer["ResponseCode"] == 429
        assert answer["ResponseHeaders"] == [{"Name": "Retry-After", "Value": "60"}]
        error = json.loads(bodies[answer["CustomResponseBodyKey"]]["Content"])["error"]
        assert error.keys() == {"type", "code", "message", "retry_after_ms"}
        rate = rule["Statement"]["RateBasedStatement"]
        assert (rate["AggregateKeyType"], rate["EvaluationWindowSec"]) == ("IP", 300)
        limits[name] = rate["Limit"]
    firewall = guarded.settings.edge.firewall
    assert firewall is not None
    assert limits == {
        "SessionsWithoutKey": firewall.sessions_without_key,
        "Requests": firewall.requests,
    }
    # One address alone never reaches the throttle that all share.
    assert limits["SessionsWithoutKey"] / 300 < guarded.settings.functions.session_rate


def test_what_is_counted_are_sessions_without_a_key_and_all_that_may_carry_a_message(
    guarded: Synthesis,
) -> None:
    def counted(name: str) -> str:
        rate = _rules(guarded)[name]["Statement"]["RateBasedStatement"]
        return json.dumps(rate["ScopeDownStatement"])

    sessions = counted("SessionsWithoutKey")
    assert '"SearchString": "/session"' in sessions
    assert '"NotStatement"' in sessions
    assert '"authorization"' in sessions
    for text in ("POST", "DELETE", "websocket", "/v1/"):
        assert f'"SearchString": "{text}"' in counted("Requests")


def test_no_token_is_kept_in_samples(guarded: Synthesis) -> None:
    web_acl = guarded.only("AWS::WAFv2::WebACL", "firewall")
    for seen in (web_acl, *web_acl["Rules"]):
        assert seen["VisibilityConfig"]["SampledRequestsEnabled"] is False
        assert seen["VisibilityConfig"]["CloudWatchMetricsEnabled"] is True
