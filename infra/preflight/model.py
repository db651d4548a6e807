"""Whether the model of the environment may be asked, and for how long there will be one."""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.infra.account.account import Account, Unanswered
from evenflow.infra.preflight.findings import Finding, bad, good, warning
from evenflow.infra.settings.inference_settings import BedrockSettings

_ACCESS, _LIFE, _PROFILE = "model access", "model life-cycle", "inference profile"


def model_findings(account: Account, bedrock: BedrockSettings) -> Iterator[Finding]:
    """Access, subscription, life-cycle and profile of a model of Bedrock."""
    for name, find in ((_ACCESS, _access), (_LIFE, _life), (_PROFILE, _profile)):
        try:
            yield find(account, bedrock)
        except Unanswered as error:
            yield bad(
                name,
                str(error),
                f"look whether {bedrock.foundation_model} is offered in {account.region}, and "
                "whether these credentials may ask",
            )


def _access(account: Account, bedrock: BedrockSettings) -> Finding:
    model = bedrock.foundation_model
    told = account.ask("bedrock", "get_foundation_model_availability", modelId=model)
    agreement = told["agreementAvailability"]
    if told["regionAvailability"] != "AVAILABLE":
        return bad(_ACCESS, f"{model} is not in {account.region}", "choose another model or region")
    if told["authorizationStatus"] != "AUTHORIZED":
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
    if told["entitlementAvailability"] != "AVAILABLE":
        return bad(
            _ACCESS, f"the account has no entitlement to {model}", "see Bedrock → Model access"
        )
    return good(_ACCESS, f"{model}, subscribed")


def _life(account: Account, bedrock: BedrockSettings) -> Finding:
    told = account.ask("bedrock", "get_foundation_model", modelIdentifier=bedrock.foundation_model)[
        "modelDetails"
    ]
    if not told.get("responseStreamingSupported", False):
        return bad(_LIFE, f"{told['modelName']} can't stream", "choose a model that can")
    cycle = told.get("modelLifecycle", {})
    ends = cycle.get("endOfLifeTime")
    until = f" until {ends:%Y-%m-%d}" if ends else ""
    if cycle.get("status") == "LEGACY":
        return warning(
            _LIFE,
            f"{told['modelName']} is LEGACY{until}",
            "plan the change to its successor: BedrockSettings.foundation_model",
        )
    return good(_LIFE, f"{told['modelName']} is {cycle.get('status', 'ACTIVE')}{until}")


def _profile(account: Account, bedrock: BedrockSettings) -> Finding:
    told = account.ask(
        "bedrock",
        "get_inference_profile",
        inferenceProfileIdentifier=bedrock.inference_profile,
    )
    if told["status"] != "ACTIVE":
        return bad(_PROFILE, f"it is {told['status']}", "choose another profile")
    regions = {model["modelArn"].split(":")[3] for model in told["models"]} - {""}
    missing = regions - set(bedrock.regions)
    if missing and not bedrock.is_global:
        return bad(
            _PROFILE,
            f"it also leads to {', '.join(sorted(missing))}, where handlers may not ask",
            "add them to BedrockSettings.regions",
        )
    return good(_PROFILE, f"{bedrock.inference_profile}: {', '.join(sorted(regions))}")
