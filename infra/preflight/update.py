"""Checks that the deployed stacks can be updated to the synthesized ones, and in which steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.preflight.findings import PreflightFinding, bad, good, unanswered, warning
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.updates.conflicts import conflicts
from evenflow.infra.updates.stacks import Stack, synthesized_stacks

_NAME = "update"
_STACKS = (
    *("network", "data", "sagemaker", "service", "functions"),
    *("edge", "canary", "observability"),
)
_GLOBAL_STACKS = ("certificate", "firewall")
_NO_SUCH_STACK = "ValidationError"
# Stacks with these statuses have no resources.
_EMPTY = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_COMPLETE")


def update_findings(
    account: AwsAccount, settings: EnvironmentSettings, assembly: Path
) -> Iterator[PreflightFinding]:
    """The conflicts of the update, or one finding that there are none.

    Args:
        assembly: the folder that `make synth` writes.
    """
    try:
        old = deployed_stacks(account, settings)
    except AwsCallError as error:
        yield unanswered(_NAME, error)
        return
    new = synthesized_stacks(assembly, settings.prefix)
    if old and not new:
        yield warning(
            _NAME,
            f"{len(old)} stacks are deployed, and {assembly} has no {settings.prefix} to compare "
            "them with",
            f"make synth ENV={settings.name}, and look again",
        )
        return
    update_conflicts = conflicts(old, new)
    for number, conflict in enumerate(update_conflicts, start=1):
        finding = bad if conflict.blocks else warning
        yield finding(f"{_NAME} {number}", f"{conflict.stack}: {conflict.found}", conflict.to_do)
    if not update_conflicts:
        yield good(_NAME, f"{len(old)} stacks are deployed, nothing stands in the way")


def deployed_stacks(account: AwsAccount, settings: EnvironmentSettings) -> dict[str, Stack]:
    """The environment's stacks, as they were deployed.

    Raises:
        AwsCallError: AWS didn't answer a call.
    """
    places = [(settings.region.name, f"{settings.prefix}-{name}") for name in _STACKS]
    places += [(GLOBAL_REGION, f"{settings.global_prefix}-{name}") for name in _GLOBAL_STACKS]
    described = ((region, _described(account, region, name)) for region, name in places)
    return {
        stack["StackName"]: _stack(account, region, stack)
        for region, stack in described
        if stack is not None
    }


def _described(account: AwsAccount, region: str, name: str) -> dict[str, Any] | None:
    """CloudFormation's description of a stack. None: it doesn't exist, or is empty."""
    try:
        page = account.call("cloudformation", "describe_stacks", region=region, StackName=name)
    except AwsCallError as error:
        if error.code == _NO_SUCH_STACK:
            return None
        raise
    stack: dict[str, Any] = page["Stacks"][0]
    return None if stack["StackStatus"] in _EMPTY else stack


def _stack(account: AwsAccount, region: str, described: dict[str, Any]) -> Stack:
    name = described["StackName"]
    answer = account.call(
        "cloudformation",
        "get_template",
        region=region,
        StackName=name,
        TemplateStage="Original",
    )
    return Stack(
        name=name,
        region=region,
        template=answer["TemplateBody"],
        tags={tag["Key"]: tag["Value"] for tag in described.get("Tags", ())},
        is_protected=described.get("EnableTerminationProtection", False),
    )
