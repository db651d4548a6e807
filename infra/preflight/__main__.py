"""`python -m evenflow.infra.preflight` (make preflight): what would stop the deployment of the last
synthesis, and how to mend it.

`--policy` prints the rights that it needs: all of them read. `--only-update` compares what is
deployed with what is synthesized in cdk.out, and nothing else. Exit status: 0 ready, 1 something
must be mended first, 2 nothing was synthesized.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenflow.infra.account.account import ACTIONS, AwsAccount, AwsCallError
from evenflow.infra.estimates.quotas import quotas
from evenflow.infra.estimates.traffic import Traffic
from evenflow.infra.preflight.account_quotas import quota_findings
from evenflow.infra.preflight.findings import PreflightFinding, Severity, as_table
from evenflow.infra.preflight.image import builder_finding, image_finding
from evenflow.infra.preflight.model import model_findings
from evenflow.infra.preflight.network import edge_findings, network_findings
from evenflow.infra.preflight.pager import pager_findings, subscription_findings
from evenflow.infra.preflight.target_account import (
    bootstrap_finding,
    certificate_finding,
    credentials_finding,
    kept_finding,
)
from evenflow.infra.preflight.update import update_findings
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.synthesized_settings import (
    ASSEMBLY,
    NotSynthesizedError,
    bootstrap_qualifier,
    read_settings,
)


def preflight(
    settings: EnvironmentSettings, now: datetime, assembly: Path = ASSEMBLY
) -> Iterator[PreflightFinding]:
    """All findings. Without credentials, only those that need no call.

    Args:
        assembly: the folder that `cdk synth` writes.
    """
    account = AwsAccount(settings.region.name)
    if settings.image is None:
        yield builder_finding()
    yield from pager_findings(settings)
    credentials, account_id = credentials_finding(account)
    yield credentials
    if not account_id:
        return
    yield from subscription_findings(account, settings, account_id)
    if settings.image is not None:
        yield image_finding(account, settings.image)
    for region in settings.stack_regions:
        yield bootstrap_finding(account, region, bootstrap_qualifier(assembly))
    yield kept_finding(account, settings)
    yield from network_findings(account, settings.prefix)
    yield from edge_findings(account, settings.global_prefix)
    certificate = certificate_finding(account, settings.edge, now)
    if certificate is not None:
        yield certificate
    if settings.inference.kind == "bedrock":
        yield from model_findings(account, settings.inference.bedrock)
    yield from quota_findings(account, quotas(settings, Traffic()), _model_name(account, settings))
    yield from update_findings(account, settings, assembly)


def pager(settings: EnvironmentSettings) -> Iterator[PreflightFinding]:
    """Whether the alarms of a deployed environment reach a confirmed address."""
    account = AwsAccount(settings.region.name)
    yield from pager_findings(settings)
    credentials, account_id = credentials_finding(account)
    yield credentials
    if account_id:
        yield from subscription_findings(account, settings, account_id, is_deployed=True)


def policy() -> dict[str, Any]:
    """The IAM policy that allows all checks. It only reads."""
    statement = {"Effect": "Allow", "Action": list(ACTIONS), "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def _model_name(account: AwsAccount, settings: EnvironmentSettings) -> str:
    if settings.inference.kind != "bedrock":
        return ""
    model = settings.inference.bedrock.foundation_model
    try:
        response = account.call("bedrock", "get_foundation_model", modelIdentifier=model)
    except AwsCallError:
        return model
    name: str = response["modelDetails"]["modelName"]
    return name


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.infra.preflight",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only-update", action="store_true", help="compare with what is deployed, nothing else"
    )
    parser.add_argument("--policy", action="store_true", help="print the rights that it needs")
    parser.add_argument(
        "--pager", action="store_true", help="only whether alarms of what is deployed reach anybody"
    )
    arguments = parser.parse_args()
    if arguments.policy:
        print(json.dumps(policy(), indent=2))
        return 0
    try:
        settings = read_settings()
    except NotSynthesizedError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{settings.prefix} in {settings.region.name}, as it was synthesized last:")
    ready = "ready to deploy"
    if arguments.pager:
        findings, ready = pager(settings), "alarms reach confirmed addresses"
    elif arguments.only_update:
        findings = update_findings(AwsAccount(settings.region.name), settings, ASSEMBLY)
    else:
        findings = preflight(settings, datetime.now(UTC))
    rows = list(findings)
    print(as_table(rows, ready))
    return int(any(finding.severity is Severity.BAD for finding in rows))


if __name__ == "__main__":
    sys.exit(main())
