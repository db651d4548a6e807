"""The web ACL before CloudFront: AWS's managed rules, and a rate for each address."""

from __future__ import annotations

import json
import re

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_wafv2 as wafv2
from constructs import Construct

from evenflow.infra.constructs.retention import log_group_of_days
from evenflow.infra.settings.environment_settings import LogRetentionDays
from evenflow.infra.settings.stack_settings import FirewallGroup, FirewallSettings
from evenflow.stream_core.http.routes import OPEN_SESSION, POLL

_Acl = wafv2.CfnWebACL
_Statement = wafv2.CfnWebACL.StatementProperty
_Rule = wafv2.CfnWebACL.RuleProperty

_WINDOW_SECONDS = 300
# A poll takes an execution of its function for up to half a minute: a flood is noticed sooner so.
_POLLS_WINDOW_SECONDS = 60
_RETRY_AFTER_SECONDS = 60
# Rules of each managed group that only count. Rules on bodies: a message may be code, a path or a
# page's address, and a prompt has megabytes. A client without User-Agent may be a program. A
# session's name may look like a file's.
_GROUPS: dict[FirewallGroup, tuple[str, ...]] = {
    "AWSManagedRulesAmazonIpReputationList": (),
    "AWSManagedRulesKnownBadInputsRuleSet": (
        "JavaDeserializationRCE_BODY",
        "Log4JRCE_BODY",
        "ReactJSRCE_BODY",
    ),
    "AWSManagedRulesCommonRuleSet": (
        "SizeRestrictions_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "CrossSiteScripting_BODY",
        "NoUserAgent_HEADER",
        "RestrictedExtensions_URIPATH",
    ),
}
_RATES = ("SessionsWithoutKey", "Requests", "Polls")
RULES = (*_RATES, *_GROUPS)
"""The names of all rules, by which CloudWatch counts what each blocked."""
# Their values would let a reader of the log act as the client. Browsers send tokens as
# subprotocols.
_SECRET_HEADERS = ("authorization", "cookie", "sec-websocket-protocol", "x-api-key")
_ONLY_BLOCKED = {
    "DefaultBehavior": "DROP",
    "Filters": [
        {
            "Behavior": "KEEP",
            "Requirement": "MEETS_ANY",
            "Conditions": [{"ActionCondition": {"Action": "BLOCK"}}],
        }
    ],
}
_TOO_MANY = "TooManyRequests"
_ERROR = {
    "error": {
        "type": "rate_limit_error",
        "code": "address_rate",
        "message": "too many requests came from this address; nothing was done, try again later",
        "retry_after_ms": 1_000 * _RETRY_AFTER_SECONDS,
    }
}


class Firewall(Construct):
    """The web ACL, and a log of the requests that it blocks, without their secrets.

    It sees requests and handshakes, never frames or answers, so it does not touch streams.

    Args:
        log_retention_days: how long the log is kept.
        keep_log: whether the log survives the deletion of its stack.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        firewall: FirewallSettings,
        log_retention_days: LogRetentionDays = 30,
        keep_log: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        web_acl = wafv2.CfnWebACL(
            self,
            "WebAcl",
            name=name,
            scope="CLOUDFRONT",
            default_action=_Acl.DefaultActionProperty(allow=_Acl.AllowActionProperty()),
            custom_response_bodies={
                _TOO_MANY: _Acl.CustomResponseBodyProperty(
                    content=json.dumps(_ERROR), content_type="APPLICATION_JSON"
                )
            },
            rules=[
                _rate_rule(0, _RATES[0], firewall.sessions_without_key, _without_key()),
                _rate_rule(1, _RATES[1], firewall.requests, _sending()),
                _rate_rule(2, _RATES[2], firewall.polls, _polling(), seconds=_POLLS_WINDOW_SECONDS),
                *(
                    _managed_rule(
                        priority, group, (*counted, *firewall.counted_rules.get(group, ()))
                    )
                    for priority, (group, counted) in enumerate(_GROUPS.items(), start=3)
                ),
            ],
            data_protection_config=_without_secrets(),
            visibility_config=_visibility(name),
        )
        self.web_acl_arn = web_acl.attr_arn
        self._log_blocked(name, log_retention_days, keep_log)

    def _log_blocked(self, name: str, days: LogRetentionDays, keep: bool) -> None:
        # WAF demands the prefix. It allows itself to write by a resource policy that it makes when
        # logging begins. One of our own would be another of the ten that a region has.
        group = log_group_of_days(self, "Log", f"aws-waf-logs-{name}", days=days, keep=keep)
        wafv2.CfnLoggingConfiguration(
            self,
            "Logging",
            resource_arn=self.web_acl_arn,
            # CloudFormation's own ARN of a group ends in `:*`, which WAF doesn't take.
            log_destination_configs=[
                Stack.of(self).format_arn(
                    service="logs",
                    resource="log-group",
                    resource_name=group.log_group_name,
                    arn_format=ArnFormat.COLON_RESOURCE_NAME,
                )
            ],
            logging_filter=_ONLY_BLOCKED,
        )


def _without_secrets() -> wafv2.CfnWebACL.DataProtectionConfigProperty:
    """Keeps secrets out of the log, and out of what a rule says that it matched, too."""
    fields = (
        _Acl.FieldToProtectProperty(field_type="SINGLE_HEADER", field_keys=list(_SECRET_HEADERS)),
        _Acl.FieldToProtectProperty(field_type="QUERY_STRING"),
    )
    return _Acl.DataProtectionConfigProperty(
        data_protections=[
            _Acl.DataProtectProperty(field=field, action="SUBSTITUTION") for field in fields
        ]
    )


def _rate_rule(
    priority: int, name: str, most: int, counted: _Statement, seconds: int = _WINDOW_SECONDS
) -> _Rule:
    answer = _Acl.CustomResponseProperty(
        response_code=429,
        custom_response_body_key=_TOO_MANY,
        response_headers=[
            _Acl.CustomHTTPHeaderProperty(name="Retry-After", value=str(_RETRY_AFTER_SECONDS))
        ],
    )
    return _Rule(
        name=name,
        priority=priority,
        action=_Acl.RuleActionProperty(block=_Acl.BlockActionProperty(custom_response=answer)),
        statement=_Statement(
            rate_based_statement=_Acl.RateBasedStatementProperty(
                aggregate_key_type="IP",
                evaluation_window_sec=seconds,
                limit=most,
                scope_down_statement=counted,
            )
        ),
        visibility_config=_visibility(name),
    )


def _managed_rule(priority: int, group: str, counted: tuple[str, ...]) -> _Rule:
    count = _Acl.RuleActionProperty(count=_Acl.CountActionProperty())
    overrides = [
        _Acl.RuleActionOverrideProperty(name=rule, action_to_use=count) for rule in counted
    ]
    return _Rule(
        name=group,
        priority=priority,
        override_action=_Acl.OverrideActionProperty(none={}),
        statement=_Statement(
            managed_rule_group_statement=_Acl.ManagedRuleGroupStatementProperty(
                vendor_name="AWS", name=group, rule_action_overrides=overrides or None
            )
        ),
        visibility_config=_visibility(group),
    )


def _without_key() -> _Statement:
    """Requests that open a session and show no key."""
    shows_key = _Statement(
        size_constraint_statement=_Acl.SizeConstraintStatementProperty(
            field_to_match=_header("authorization"),
            comparison_operator="GT",
            size=0,
            text_transformations=_in_form(),
        )
    )
    return _Statement(
        and_statement=_Acl.AndStatementProperty(
            statements=[
                _path("EXACTLY", OPEN_SESSION.path),
                _Statement(not_statement=_Acl.NotStatementProperty(statement=shows_key)),
            ]
        )
    )


def _sending() -> _Statement:
    """Requests that may carry a message: those with a body, all of /v1, and WebSockets."""
    return _Statement(
        or_statement=_Acl.OrStatementProperty(
            statements=[
                *(
                    _equals(_Acl.FieldToMatchProperty(method={}), method)
                    for method in ("POST", "DELETE")
                ),
                _equals(_header("upgrade"), "websocket", "LOWERCASE"),
                _path("STARTS_WITH", "/v1/"),
            ]
        )
    )


def _polling() -> _Statement:
    """Long polls, and no other calls of a response."""
    path = re.sub(r"\{\w+\}", "[^/]+", POLL.path)
    return _Statement(
        regex_match_statement=_Acl.RegexMatchStatementProperty(
            field_to_match=_Acl.FieldToMatchProperty(uri_path={}),
            regex_string=f"^{path}/?$",
            text_transformations=_in_form("URL_DECODE"),
        )
    )


def _path(position: str, path: str) -> _Statement:
    return _Statement(
        byte_match_statement=_Acl.ByteMatchStatementProperty(
            field_to_match=_Acl.FieldToMatchProperty(uri_path={}),
            positional_constraint=position,
            search_string=path,
            text_transformations=_in_form("URL_DECODE"),
        )
    )


def _equals(
    field: wafv2.CfnWebACL.FieldToMatchProperty, text: str, form: str = "NONE"
) -> _Statement:
    return _Statement(
        byte_match_statement=_Acl.ByteMatchStatementProperty(
            field_to_match=field,
            positional_constraint="EXACTLY",
            search_string=text,
            text_transformations=_in_form(form),
        )
    )


def _header(name: str) -> wafv2.CfnWebACL.FieldToMatchProperty:
    return _Acl.FieldToMatchProperty(single_header={"Name": name})


def _in_form(form: str = "NONE") -> list[wafv2.CfnWebACL.TextTransformationProperty]:
    return [_Acl.TextTransformationProperty(priority=0, type=form)]


def _visibility(name: str) -> wafv2.CfnWebACL.VisibilityConfigProperty:
    return _Acl.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False
    )
