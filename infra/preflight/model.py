"""Checks access to the model of the environment, its life-cycle, and its inference profile."""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.preflight.findings import PreflightFinding, bad, good, warning
from evenflow.infra.settings.inference_settings import BedrockSettings

_ACCESS, _LIFE_CYCLE, _PROFILE = "model access", "model life-cycle", "inference profile"


def model_findings(account: AwsAccount, bedrock: BedrockSettings) -> Iterator[PreflightFinding]:
    """Access, subscription, life-cycle and profile of a model of Bedrock."""
    for name, find in ((_ACCESS, _access), (_LIFE_CYCLE, _life_cycle), (_PROFILE, _profile)):
        try:
            yield find(account, bedrock)
        except AwsCallError as error:
            yield bad(
                name,
                str(error),
                f"look whether {bedrock.foundation_model} is offered in {account.region}, and "
                "whether these credentials may ask",
            )


def _access(account: AwsAccount, bedrock: BedrockSettings) -> PreflightFinding:
    model = bedrock.foundation_model
    response = account.call("bedrock", "get_foundation_model_availability", modelId=model)
    agreement = response["agreementAvailability"]
    if response["regionAvailability"] != "AVAILABLE":
        return bad(_ACCESS, f"{model} is not in {account.region}", "choose another model or region")
    if response["authorizationStatus"] != "AUTHORIZED":
        return bad(
            _ACCESS,
            f"the account may not use {model}",
            "ask who governs the organization: a policy of AWS Organizations forbids it",
        )
    if agreement["status"] != "AVAILABLE":
        why = agreement.get("errorMessage") or "the offer of AWS Marketplace is not accepted"
        return bad(
            _ACCESS,
            f"Marketplace subscription {agreement['status']}: {why}",
            "ask the model once in Bedrock's playground as somebody with aws-marketplace:Subscribe "
            "(for Anthropic with the form about the use), and wait some minutes",
        )
    if response["entitlementAvailability"] != "AVAILABLE":
        return bad(
            _ACCESS, f"the account has no entitlement to {model}", "see Bedrock → Model access"
        )
    return good(_ACCESS, f"{model}, subscribed")


def _life_cycle(account: AwsAccount, bedrock: BedrockSettings) -> PreflightFinding:
    response = account.call(
        "bedrock", "get_foundation_model", modelIdentifier=bedrock.foundation_model
    )["modelDetails"]
    if not response.get("responseStreamingSupported", False):
        return bad(_LIFE_CYCLE, f"{response['modelName']} can't stream", "choose a model that can")
    cycle = response.get("modelLifecycle", {})
    ends = cycle.get("endOfLifeTime")
    until = f" until {ends:%Y-%m-%d}" if ends else ""
    if cycle.get("status") == "LEGACY":
        return warning(
            _LIFE_CYCLE,
            f"{response['modelName']} is LEGACY{until}",
            "plan the change to its successor: BedrockSettings.foundation_model",
        )
    return good(_LIFE_CYCLE, f"{response['modelName']} is {cycle.get('status', 'ACTIVE')}{until}")


def _profile(account: AwsAccount, bedrock: BedrockSettings) -> PreflightFinding:
    response = account.call(
        "bedrock",
        "get_inference_profile",
        inferenceProfileIdentifier=bedrock.inference_profile,
    )
    if response["status"] != "ACTIVE":
        return bad(_PROFILE, f"it is {response['status']}", "choose another profile")
    regions = {model["modelArn"].split(":")[3] for model in response["models"]} - {""}
    missing = regions - set(bedrock.regions)
    if missing and not bedrock.is_global:
        return bad(
            _PROFILE,
            f"it also leads to {', '.join(sorted(missing))}, where handlers may not ask",
            "add them to BedrockSettings.regions",
        )
    return good(_PROFILE, f"{bedrock.inference_profile}: {', '.join(sorted(regions))}")
