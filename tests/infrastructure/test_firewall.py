"""The web ACL: who is bounded by it, and what it lets through."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from pydantic import ValidationError

from evenflow.infra.constructs.edge.firewall import Firewall
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.stack_settings import FirewallSettings
from evenflow.infra.stacks import FirewallStack
from tests.infrastructure.conftest import Synthesize
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


def test_an_address_is_bounded_and_told_so_in_the_contracts_shape(
    guarded: Synthesis,
) -> None:
    bodies = guarded.only("AWS::WAFv2::WebACL", "firewall")["CustomResponseBodies"]
    limits, seconds = {"SessionsWithoutKey": 0, "Requests": 0, "Polls": 0}, {}
    for name in limits:
        rule = _rules(guarded)[name]
        answer = rule["Action"]["Block"]["CustomResponse"]
        assert answer["ResponseCode"] == 429
        assert answer["ResponseHeaders"] == [{"Name": "Retry-After", "Value": "60"}]
        error = json.loads(bodies[answer["CustomResponseBodyKey"]]["Content"])["error"]
        assert error.keys() == {"type", "code", "message", "retry_after_ms"}
        rate = rule["Statement"]["RateBasedStatement"]
        assert rate["AggregateKeyType"] == "IP"
        limits[name], seconds[name] = rate["Limit"], rate["EvaluationWindowSec"]
    firewall = guarded.settings.edge.firewall
    assert firewall is not None
    assert limits == {
        "SessionsWithoutKey": firewall.sessions_without_key,
        "Requests": firewall.requests,
        "Polls": firewall.polls,
    }
    assert seconds == {"SessionsWithoutKey": 300, "Requests": 300, "Polls": 60}
    # One address alone never reaches the throttle that all share, nor takes all executions.
    functions = guarded.settings.functions
    assert limits["SessionsWithoutKey"] / 300 < functions.session_rate
    longest = guarded.settings.limits.poll_timeout_max_ms / 1000
    assert functions.reserved_concurrency is not None
    assert limits["Polls"] / 60 * longest <= functions.reserved_concurrency.poll_response / 2


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
    polls = re.compile(json.loads(counted("Polls"))["RegexMatchStatement"]["RegexString"])
    assert polls.match("/chat/message/rsp_1")
    for other in ("", "/rsp_1/events", "/rsp_1/entries/1/0-9"):
        assert not polls.match(f"/chat/message{other}")


def test_the_log_has_blocked_requests_alone(guarded: Synthesis) -> None:
    (logging,) = guarded.of_type("AWS::WAFv2::LoggingConfiguration", "firewall").values()
    properties = logging["Properties"]
    (acl,) = guarded.of_type("AWS::WAFv2::WebACL", "firewall")
    assert properties["ResourceArn"] == {"Fn::GetAtt": [acl, "Arn"]}
    assert properties["LoggingFilter"] == {
        "DefaultBehavior": "DROP",
        "Filters": [
            {
                "Behavior": "KEEP",
                "Requirement": "MEETS_ANY",
                "Conditions": [{"ActionCondition": {"Action": "BLOCK"}}],
            }
        ],
    }
    ((name, group),) = guarded.of_type("AWS::Logs::LogGroup", "firewall").items()
    # WAF takes no other name, and no ARN that ends in `:*` as the attribute does.
    assert group["Properties"]["LogGroupName"].startswith("aws-waf-logs-")
    (destination,) = properties["LogDestinationConfigs"]
    assert destination["Fn::Join"][1][-2:] == [":log-group:", {"Ref": name}]
    settings = guarded.settings
    assert group["Properties"]["RetentionInDays"] == settings.log_retention_days
    kept = "RetainExceptOnCreate" if settings.data.keep else "Delete"
    assert group["DeletionPolicy"] == kept


def test_no_secret_is_written_to_the_log(guarded: Synthesis) -> None:
    protected = {
        (data["Field"]["FieldType"], tuple(data["Field"].get("FieldKeys", ()))): (
            data["Action"],
            data.get("ExcludeRuleMatchDetails", False),
        )
        for data in guarded.only("AWS::WAFv2::WebACL", "firewall")["DataProtectionConfig"][
            "DataProtections"
        ]
    }
    headers = ("authorization", "cookie", "sec-websocket-protocol", "x-api-key")
    assert protected == {
        ("SINGLE_HEADER", headers): ("SUBSTITUTION", False),
        ("QUERY_STRING", ()): ("SUBSTITUTION", False),
    }


def test_a_rule_that_stops_readers_can_be_made_to_count() -> None:
    counted = {"AWSManagedRulesCommonRuleSet": ("GenericLFI_QUERYARGUMENTS",)}
    stack = cdk.Stack()
    Firewall(stack, "F", name="f", firewall=FirewallSettings(counted_rules=counted))
    template = Template.from_stack(stack)
    (acl,) = template.find_resources("AWS::WAFv2::WebACL").values()
    (group,) = (r for r in acl["Properties"]["Rules"] if r["Name"].endswith("CommonRuleSet"))
    overrides = group["Statement"]["ManagedRuleGroupStatement"]["RuleActionOverrides"]
    actions = {override["Name"]: override["ActionToUse"] for override in overrides}
    assert actions["GenericLFI_QUERYARGUMENTS"] == {"Count": {}}
    assert len(actions) == 8, "those on bodies are counted as before"
    with pytest.raises(ValidationError, match="AWSManagedRulesCommonRuleSet"):
        FirewallSettings.model_validate({"counted_rules": {"CommonRuleSet": ()}})


@pytest.mark.parametrize(
    ("name", "stack"), [("staging", "observability"), ("staging/eu-west-1", "firewall")]
)
def test_the_alarm_on_what_is_blocked_is_where_its_metric_is(
    synthesized: Synthesize, name: str, stack: str
) -> None:
    synthesis = synthesized(name)
    (alarm,) = (
        alarm["Properties"]
        for alarm in synthesis.of_type("AWS::CloudWatch::Alarm").values()
        if alarm["Properties"].get("MetricName") == "BlockedRequests"
    )
    alarms = synthesis.of_type("AWS::CloudWatch::Alarm", stack).values()
    assert alarm in [other["Properties"] for other in alarms]
    manifest = json.loads((synthesis.folder / "manifest.json").read_text("utf-8"))
    stacks = {
        key: artifact["environment"]
        for key, artifact in manifest["artifacts"].items()
        if key.endswith(f"-{stack}")
    }
    assert [environment.rsplit("/", 1)[-1] for environment in stacks.values()] == ["us-east-1"]
    assert alarm["Namespace"] == "AWS/WAFV2"
    # Those of CloudFront have no dimension `Region`.
    assert {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]} == {
        "WebACL": synthesis.settings.global_prefix,
        "Rule": "ALL",
    }
    (topic,) = (action["Ref"] for action in alarm["AlarmActions"])
    topics = synthesis.of_type("AWS::SNS::Topic", stack)
    assert topics[topic]["Properties"]["TopicName"].endswith("-notices")
    assert "docs/runbooks/firewall.blocked_requests.md" in alarm["AlarmDescription"]


def test_an_alarm_elsewhere_has_one_topic_and_wakes_nobody(synthesized: Synthesize) -> None:
    topics = synthesized("staging/eu-west-1").of_type("AWS::SNS::Topic", "firewall").values()
    names = [topic["Properties"]["TopicName"] for topic in topics]
    assert names == ["evenflow-staging-eu-west-1-notices"]


def test_the_dashboard_has_what_each_rule_blocked(synthesized: Synthesize) -> None:
    synthesis = synthesized("staging/eu-west-1")
    body = json.dumps(synthesis.only("AWS::CloudWatch::Dashboard", "observability"))
    drawn = body.replace("\\", "").partition('"title":"Requests that were blocked"')[2]
    rules = _rules(synthesis)
    assert rules
    for name in rules:
        assert f'"Rule","{name}"' in drawn
    assert '"region":"us-east-1"' in drawn


def test_no_token_is_kept_in_samples(guarded: Synthesis) -> None:
    web_acl = guarded.only("AWS::WAFv2::WebACL", "firewall")
    for seen in (web_acl, *web_acl["Rules"]):
        assert seen["VisibilityConfig"]["SampledRequestsEnabled"] is False
        assert seen["VisibilityConfig"]["CloudWatchMetricsEnabled"] is True
