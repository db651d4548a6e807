"""Access to the one model on Bedrock that may be called."""

from __future__ import annotations

import hashlib

from aws_cdk import ArnFormat, Fn, Stack
from aws_cdk import aws_bedrock as bedrock
from aws_cdk import aws_iam as iam
from constructs import Construct

from evenflow.infra.constructs.inference.model_access import ModelAccess, guardrail_statements
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.inference_settings import BedrockSettings

# This action alone authorizes ConverseStream.
_ACTION = "bedrock:InvokeModelWithResponseStream"


class BedrockAccess(Construct):
    """The environment's inference profile over a cross-region one, for its own costs and metrics.

    A profile's model can't be changed: for another one there is another profile, with a name and a
    construct of its own. It has to be in the stack of the tasks that use it. CloudFormation makes
    the new one before them and deletes the old one after them, and would change no exported ARN.

    A person must open the account's access to the model. Some models need a form to be filled in.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings
    ) -> None:
        super().__init__(scope, construct_id)
        model, stack = settings.inference.bedrock, Stack.of(self)
        source_arn = stack.format_arn(
            service="bedrock", resource="inference-profile", resource_name=model.inference_profile
        )
        profile = bedrock.CfnApplicationInferenceProfile(
            self,
            f"Profile-{model.inference_profile}",
            inference_profile_name=_profile_name(settings.prefix, model.inference_profile),
            description=model.inference_profile,
            model_source=bedrock.CfnApplicationInferenceProfile.InferenceProfileModelSourceProperty(
                copy_from=source_arn
            ),
        )
        profile_arn = profile.attr_inference_profile_arn
        self.model_access = ModelAccess(
            kind="bedrock",
            name=profile_arn,
            # Its id, which is made at the deployment.
            log_name=Fn.select(1, Fn.split("/", profile_arn)),
            further=model.variables,
            policy_id=f"Model-{model.inference_profile}",
            statements=[
                iam.PolicyStatement(
                    sid="InferenceProfile", actions=[_ACTION], resources=[profile_arn]
                ),
                # Bedrock may check the profile behind ours, too: AWS doesn't say. The condition
                # forbids calls of that profile alone.
                iam.PolicyStatement(
                    sid="SourceProfile",
                    actions=[_ACTION],
                    resources=[source_arn],
                    conditions={"StringEquals": {"bedrock:InferenceProfileArn": profile_arn}},
                ),
                *_model_statements(stack, model, profile_arn),
                *guardrail_statements(stack, model.guardrail),
            ],
        )


def _profile_name(prefix: str, inference_profile: str) -> str:
    """A name of its own for each model. With the model's in it, it could exceed 64 characters."""
    return f"{prefix}-{hashlib.sha256(inference_profile.encode()).hexdigest()[:8]}"


def _model_statements(
    stack: Stack, model: BedrockSettings, profile_arn: str
) -> list[iam.PolicyStatement]:
    """The model in each region of the profile, through our own profile only."""
    own = {"bedrock:InferenceProfileArn": profile_arn}
    if not model.is_global:
        return [_allow_model(stack, "ModelThroughProfile", model, model.regions, own)]
    # A global profile asks for the model here, and for one without a region: any commercial one.
    return [
        _allow_model(stack, "ModelHere", model, (stack.region,), own),
        _allow_model(
            stack, "ModelAnywhere", model, ("",), own | {"aws:RequestedRegion": "unspecified"}
        ),
    ]


def _allow_model(
    stack: Stack,
    sid: str,
    model: BedrockSettings,
    regions: tuple[str, ...],
    conditions: dict[str, str],
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=sid,
        actions=[_ACTION],
        resources=[_model_arn(stack, region, model.foundation_model) for region in regions],
        conditions={"StringEquals": conditions},
    )


def _model_arn(stack: Stack, region: str, model: str) -> str:
    return stack.format_arn(
        service="bedrock",
        region=region,
        account="",
        resource="foundation-model",
        resource_name=model,
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )
