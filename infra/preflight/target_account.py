"""The target of a deployment: credentials, CDK's bootstrap, certificate, and kept resources."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.account.kept_resources import find_kept
from evenflow.infra.preflight.findings import PreflightFinding, bad, good, unanswered, warning
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.settings.stack_settings import EdgeSettings
from evenflow.infra.settings.synthesized_settings import DEFAULT_QUALIFIER

_OLDEST_BOOTSTRAP = 6
_LEFT = timedelta(days=30)
_CERTIFICATE = "certificate"
_NO_SUCH_CERTIFICATE = ("ResourceNotFoundException", "ValidationException")


def credentials_finding(account: AwsAccount) -> tuple[PreflightFinding, str]:
    """A finding on the credentials, and their account's id. "": there are no credentials."""
    try:
        identity = account.call("sts", "get_caller_identity")
    except AwsCallError as error:
        to_do = "log in: `aws sso login`, or set AWS_PROFILE"
        return bad("credentials", str(error), to_do), ""
    place = f"account {identity['Account']}, region {account.region}"
    return good("credentials", place), identity["Account"]


def bootstrap_finding(account: AwsAccount, region: str, qualifier: str) -> PreflightFinding:
    """Whether CDK may deploy into the account and a region, by the bootstrap of a qualifier."""
    name = f"CDK bootstrap, {region}"
    to_do = f"infra/node_modules/.bin/cdk bootstrap aws://<account>/{region}"
    if qualifier != DEFAULT_QUALIFIER:
        to_do += f" --qualifier {qualifier} --toolkit-stack-name CDKToolkit-{qualifier}"
    parameter = f"/cdk-bootstrap/{qualifier}/version"
    try:
        answer = account.call("ssm", "get_parameter", region=region, Name=parameter)
    except AwsCallError as error:
        if error.code != "ParameterNotFound":
            return unanswered(name, error)
        return bad(name, f"there is none ({error.code})", to_do)
    version = int(answer["Parameter"]["Value"])
    if version < _OLDEST_BOOTSTRAP:
        return bad(name, f"version {version}, and {_OLDEST_BOOTSTRAP} is needed", to_do)
    return good(name, f"version {version}")


def certificate_finding(
    account: AwsAccount, edge: EdgeSettings, now: datetime
) -> PreflightFinding | None:
    """Whether CloudFront can use the domain's certificate. None: there is no domain."""
    arn, domain = edge.certificate_arn, edge.domain_name
    if arn is None or domain is None:
        return None
    region = arn.split(":")[3]
    if region != GLOBAL_REGION:
        to_do = f"CloudFront takes one of {GLOBAL_REGION} only: make it there"
        return bad(_CERTIFICATE, f"it is in {region}", to_do)
    try:
        response = account.call("acm", "describe_certificate", region=region, CertificateArn=arn)
    except AwsCallError as error:
        if error.code not in _NO_SUCH_CERTIFICATE:
            return unanswered(_CERTIFICATE, error)
        return bad(_CERTIFICATE, str(error), "correct EdgeSettings.certificate_arn")
    return _validity_finding(response["Certificate"], domain, now)


def _validity_finding(
    certificate: Mapping[str, Any], domain: str, now: datetime
) -> PreflightFinding:
    if certificate["Status"] != "ISSUED":
        return bad(
            _CERTIFICATE,
            f"it is {certificate['Status']}",
            "add the CNAME that ACM names to the domain's zone, and wait until it is issued",
        )
    names = {certificate["DomainName"], *certificate.get("SubjectAlternativeNames", ())}
    if not any(_covers(pattern, domain) for pattern in names):
        found = f"it is for {', '.join(sorted(names))}, not for {domain}"
        return bad(_CERTIFICATE, found, "request one for it in ACM")
    ends = certificate["NotAfter"].astimezone(UTC)
    if ends < now:
        return bad(_CERTIFICATE, f"it ended on {ends:%Y-%m-%d}", "renew it")
    if ends < now + _LEFT:
        return warning(_CERTIFICATE, f"it ends on {ends:%Y-%m-%d}", "see why ACM doesn't renew it")
    return good(_CERTIFICATE, f"{domain}, until {ends:%Y-%m-%d}")


def _covers(pattern: str, domain: str) -> bool:
    if pattern.startswith("*."):
        return domain.partition(".")[2] == pattern.removeprefix("*.")
    return pattern == domain


_KEPT = "kept resources"
_SHOWN = 3


def kept_finding(account: AwsAccount, settings: EnvironmentSettings) -> PreflightFinding:
    """Whether a name that the stacks need is taken by a resource that no stack owns."""
    try:
        resources = find_kept(account, settings)
    except AwsCallError as error:
        return unanswered(_KEPT, error)
    names = [resource.shown_name for resource in resources if resource.takes_name]
    if not names:
        return good(_KEPT, "none that takes a name of this environment")
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return bad(
        _KEPT,
        f"{', '.join(names[:_SHOWN])}{more}: no stack owns them, so CloudFormation would fail "
        "with AlreadyExists",
        "adopt or delete them, by docs/runbooks/kept-resources.md; `python -m "
        f"evenflow.infra.removal {settings.name} --region {settings.region.name} --installation "
        f"{settings.installation}` lists all",
    )
