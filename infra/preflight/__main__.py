"""`python -m evenflow.infra.preflight dev` (make preflight): what would stop a deployment, and what
to do.

`--policy` prints the rights that it needs: all of them read. Exit status: 0 ready, 1 something must
be mended first, 2 there is no such environment.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from evenflow.infra.environments import UnknownEnvironmentError, environment
from evenflow.infra.preflight.account import ACTIONS, Account, Unanswered
from evenflow.infra.preflight.account_quotas import quota_findings
from evenflow.infra.preflight.findings import Finding, Verdict, as_table
from evenflow.infra.preflight.image import builder_finding, image_finding
from evenflow.infra.preflight.kept import kept_finding
from evenflow.infra.preflight.model import model_findings
from evenflow.infra.preflight.pager import pager_findings
from evenflow.infra.preflight.place import (
    bootstrap_finding,
    certificate_finding,
    credentials_finding,
)
from evenflow.infra.quotas import quotas
from evenflow.infra.regions import UnknownRegionError
from evenflow.infra.settings import EnvironmentSettings
from evenflow.infra.traffic import Traffic


def preflight(settings: EnvironmentSettings, now: datetime) -> Iterator[Finding]:
    """All findings. Without credentials only the first, and what this machine tells."""
    account = Account(settings.region.name)
    if settings.image is None:
        yield builder_finding()
    yield from pager_findings(settings)
    credentials = credentials_finding(account)
    yield credentials
    if credentials.verdict is not Verdict.GOOD:
        return
    if settings.image is not None:
        yield image_finding(account, settings.image)
    for region in settings.stack_regions:
        yield bootstrap_finding(account, region)
    yield kept_finding(account, settings)
    certificate = certificate_finding(account, settings.edge, now)
    if certificate is not None:
        yield certificate
    if settings.inference.kind == "bedrock":
        yield from model_findings(account, settings.inference.bedrock)
    yield from quota_findings(account, quotas(settings, Traffic()), _model_name(account, settings))


def policy() -> dict[str, Any]:
    """The IAM policy under which it can look at everything. None of the calls changes anything."""
    statement = {"Effect": "Allow", "Action": list(ACTIONS), "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def _model_name(account: Account, settings: EnvironmentSettings) -> str:
    if settings.inference.kind != "bedrock":
        return ""
    model = settings.inference.bedrock.foundation_model
    try:
        told = account.ask("bedrock", "get_foundation_model", modelIdentifier=model)
    except Unanswered:
        return model
    name: str = told["modelDetails"]["modelName"]
    return name


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.infra.preflight",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("environment", nargs="?", default="dev")
    parser.add_argument("--region", default="", help="instead of us-east-1")
    parser.add_argument("--installation", default="", help="instead of evenflow")
    parser.add_argument("--policy", action="store_true", help="print the rights that it needs")
    arguments = parser.parse_args()
    if arguments.policy:
        print(json.dumps(policy(), indent=2))
        return 0
    try:
        settings = environment(
            arguments.environment, region=arguments.region, installation=arguments.installation
        )
    except (UnknownEnvironmentError, UnknownRegionError) as error:
        print(error, file=sys.stderr)
        return 2
    findings = list(preflight(settings, datetime.now(UTC)))
    print(as_table(findings))
    return int(any(finding.verdict is Verdict.BAD for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
