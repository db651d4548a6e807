"""Where tokens come from, as the template has it, and what the handlers are allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_ec2 as ec2
from pydantic import ValidationError

from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.inference.sagemaker_endpoint import SageMakerEndpoint
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.inference_settings import (
    BedrockSettings,
    InferenceSettings,
    SageMakerSettings,
)
from evenflow.infra.stacks import InferenceStack
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.own_stacks import (
    Template,
    inference_template,
    observability_template,
    resources,
)
from tests.infrastructure.synthesis import Synthesis, synthesize

STREAM = "bedrock:InvokeModelWithResponseStream"
CURRENT = BedrockSettings().foundation_model
FROM_BUCKET = SageMakerSettings(
    model="s3://weights/qwen/", speculative_tokens=4, prefix_routing_bytes=4_096, instances_max=4
)
FROM_HUB = SageMakerSettings(model="Qwen/Qwen3-8B", prefix_caching=False)


def with_endpoint(model: SageMakerSettings) -> EnvironmentSettings:
    inference = InferenceSettings(kind="sagemaker", sagemaker=model)
    return environment("prod").model_copy(update={"inference": inference})


def with_bedrock_of(model: BedrockSettings) -> EnvironmentSettings:
    inference = InferenceSettings(kind="bedrock", bedrock=model)
    return environment("prod").model_copy(update={"inference": inference})


def statements(stack: InferenceStack) -> list[Any]:
    """As the task role gets them."""
    resolved: list[Any] = stack.resolve(
        [one.to_statement_json() for one in stack.model_access.statements]
    )
    return resolved


def _resources(subnets: list[ec2.ISubnet]) -> list[cdk.CfnElement]:
    found = [subnet.node.default_child for subnet in subnets]
    return [each for each in found if isinstance(each, cdk.CfnElement)]


def only(template: Template, resource_type: str) -> Any:
    [properties] = resources(template, f"AWS::{resource_type}").values()
    return properties


@pytest.fixture(scope="module")
def with_bedrock() -> tuple[Template, InferenceStack]:
    inference = InferenceSettings(kind="bedrock")
    return inference_template(environment("prod").model_copy(update={"inference": inference}))


@pytest.fixture(scope="module")
def from_bucket() -> tuple[Template, InferenceStack]:
    return inference_template(with_endpoint(FROM_BUCKET))


@pytest.fixture(scope="module")
def from_hub() -> Template:
    return inference_template(with_endpoint(FROM_HUB))[0]


class TestBedrock:
    def test_the_profile_of_our_own_is_made_of_the_one_in_the_settings(
        self, with_bedrock: tuple[Template, InferenceStack]
    ) -> None:
        template, _ = with_bedrock
        profile = only(template, "Bedrock::ApplicationInferenceProfile")
        assert profile["InferenceProfileName"].startswith("evenflow-prod-")
        assert profile["Description"] == BedrockSettings().inference_profile
        assert f":inference-profile/{BedrockSettings().inference_profile}" in json.dumps(
            profile["ModelSource"]
        )

    def test_the_handlers_may_stream_from_the_profile_and_through_it_from_its_model_in_its_regions(
        self, with_bedrock: tuple[Template, InferenceStack]
    ) -> None:
        template, stack = with_bedrock
        [profile_id] = resources(template, "AWS::Bedrock::ApplicationInferenceProfile")
        arn = {"Fn::GetAtt": [profile_id, "InferenceProfileArn"]}
        profile, source, model = statements(stack)
        assert stack.resolve(stack.model_access.name) == arn
        assert (profile["Action"], profile["Resource"]) == (STREAM, arn)
        assert model["Action"] == STREAM
        through_ours = {"StringEquals": {"bedrock:InferenceProfileArn": arn}}
        assert source["Condition"] == model["Condition"] == through_ours
        named = BedrockSettings()
        assert len(model["Resource"]) == len(named.regions)
        for region, resource in zip(named.regions, model["Resource"], strict=True):
            assert f":bedrock:{region}::foundation-model/{named.foundation_model}" in json.dumps(
                resource
            )

    def test_no_statement_has_a_wildcard(
        self, with_bedrock: tuple[Template, InferenceStack]
    ) -> None:
        assert "*" not in json.dumps(statements(with_bedrock[1]))

    def test_a_global_profile_may_go_to_the_model_here_and_in_any_commercial_region(self) -> None:
        named = BedrockSettings(
            inference_profile="global.anthropic.claude-x", foundation_model="anthropic.claude-x"
        )
        _, stack = inference_template(with_bedrock_of(named))
        *_, here, anywhere = statements(stack)
        model = "foundation-model/anthropic.claude-x"
        assert f":bedrock:us-east-1::{model}" in json.dumps(here["Resource"])
        assert f":bedrock:::{model}" in json.dumps(anywhere["Resource"])
        condition = here["Condition"]["StringEquals"]
        assert condition.keys() == {"bedrock:InferenceProfileArn"}
        assert anywhere["Condition"]["StringEquals"] == condition | {
            "aws:RequestedRegion": "unspecified"
        }

    def test_a_guardrail_may_be_applied(self) -> None:
        _, stack = inference_template(with_bedrock_of(BedrockSettings(guardrail="abc123:2")))
        guardrail = statements(stack)[-1]
        assert guardrail["Action"] == "bedrock:ApplyGuardrail"
        assert json.dumps(guardrail["Resource"]).endswith(':guardrail/abc123"]]}')

    def test_a_guardrail_is_also_named_by_its_arn(self) -> None:
        arn = "arn:aws:bedrock:us-east-1:111111111111:guardrail/abc123"
        _, stack = inference_template(with_bedrock_of(BedrockSettings(guardrail=f"{arn}:DRAFT")))
        assert statements(stack)[-1]["Resource"] == arn

    @pytest.mark.parametrize(
        "guardrail", ["abc123", "abc123:0", "arn:aws:bedrock:us-east-1:1:guardrail/abc123:2"]
    )
    def test_a_guardrail_that_handlers_refuse_is_refused(self, guardrail: str) -> None:
        with pytest.raises(ValidationError, match="guardrail"):
            BedrockSettings(guardrail=guardrail)

    def test_a_mode_without_a_guardrail_is_refused(self) -> None:
        with pytest.raises(ValidationError, match="guardrail_mode needs guardrail"):
            BedrockSettings(guardrail_mode="async")

    def test_the_longest_answer_is_always_told_since_bedrock_reserves_it(
        self, with_bedrock: tuple[Template, InferenceStack]
    ) -> None:
        variables = with_bedrock[1].model_access.variables
        assert variables["EVENFLOW_MODEL_MAX_TOKENS"] == "4096"
        assert not [name for name in variables if name.startswith("EVENFLOW_BEDROCK_")]

    def test_how_the_model_is_called_is_told_to_who_calls_it(self) -> None:
        settings = BedrockSettings(
            cache_ttl="5m", service_tier="flex", guardrail="abc123:2", guardrail_mode="async"
        )
        access = ModelAccess("bedrock", name="a-model", further=settings.variables)
        assert access.variables == {
            "EVENFLOW_MODEL": "bedrock",
            "EVENFLOW_MODEL_NAME": "a-model",
            "EVENFLOW_MODEL_MAX_TOKENS": "4096",
            "EVENFLOW_BEDROCK_CACHE_TTL": "5m",
            "EVENFLOW_BEDROCK_SERVICE_TIER": "flex",
            "EVENFLOW_BEDROCK_GUARDRAIL": "abc123:2",
            "EVENFLOW_BEDROCK_GUARDRAIL_MODE": "async",
        }
        assert access.variables.keys() <= {
            f"EVENFLOW_{name.upper()}" for name in HandlerSettings.model_fields
        }
        assert access.behind("workers:50051").variables.keys() == {
            "EVENFLOW_MODEL",
            "EVENFLOW_MODEL_NAME",
            "EVENFLOW_WORKERS",
        }

    @pytest.mark.parametrize("profile", ["anthropic.claude-x", "us.anthropic.another"])
    def test_a_profile_that_the_policy_would_not_fit_is_refused(self, profile: str) -> None:
        with pytest.raises(ValidationError, match="inference_profile must be"):
            BedrockSettings(inference_profile=profile, foundation_model="anthropic.claude-x")


@pytest.mark.parametrize(
    ("profile", "model"),
    [("us.anthropic.claude-next", "anthropic.claude-next"), (f"global.{CURRENT}", CURRENT)],
)
def test_another_model_is_another_profile_and_changes_no_export(
    staging: Synthesis, tmp_path: Path, profile: str, model: str
) -> None:
    """CloudFormation refuses to change an exported value that another stack imports."""
    bedrock = BedrockSettings(inference_profile=profile, foundation_model=model)
    inference = InferenceSettings(kind="bedrock", bedrock=bedrock)
    after = synthesize(staging.settings.model_copy(update={"inference": inference}), tmp_path)
    for stack, template in staging.templates.items():
        now, exports = after.templates[stack], _exports(template)
        assert _exports(now) == exports
        for name, resource in template["Resources"].items():
            if f'"{name}"' in json.dumps(exports):
                assert now["Resources"].get(name) == resource
    for kind in ("AWS::Bedrock::ApplicationInferenceProfile", "AWS::IAM::Policy"):
        old, new = (it.of_type(kind, "service") for it in (staging, after))
        kept = [name for name in old if name in new]
        assert all(old[name] == new[name] for name in kept)
        assert len(old) == len(new) == len(kept) + 1
    names = [
        it.only("AWS::Bedrock::ApplicationInferenceProfile")["InferenceProfileName"]
        for it in (staging, after)
    ]
    assert names[0] != names[1]


def _exports(template: Template) -> Template:
    outputs = template.get("Outputs", {}).items()
    return {name: output for name, output in outputs if "Export" in output}


class TestEndpoint:
    def test_the_handlers_may_call_this_endpoint_and_nothing_else(
        self, from_bucket: tuple[Template, InferenceStack]
    ) -> None:
        template, stack = from_bucket
        [statement] = statements(stack)
        assert (
            stack.model_access.name
            == only(template, "SageMaker::Endpoint")["EndpointName"]
            == "evenflow-prod-model"
        )
        assert statement["Action"] == [
            "sagemaker:InvokeEndpoint",
            "sagemaker:InvokeEndpointWithResponseStream",
        ]
        resource = json.dumps(statement["Resource"])
        assert "endpoint/evenflow-prod-model" in resource
        assert "*" not in resource

    def test_weights_from_a_bucket_need_no_network_in_the_container(
        self, from_bucket: tuple[Template, InferenceStack]
    ) -> None:
        template, _ = from_bucket
        model = only(template, "SageMaker::Model")
        assert model["EnableNetworkIsolation"] is True
        assert len(model["VpcConfig"]["Subnets"]) == environment("prod").network.zones
        container = model["PrimaryContainer"]
        assert container["ModelDataSource"]["S3DataSource"] == {
            "CompressionType": "None",
            "S3DataType": "S3Prefix",
            "S3Uri": "s3://weights/qwen/",
        }
        assert container["Environment"]["HF_MODEL_ID"] == "/opt/ml/model"
        # CloudFormation takes the rule that allows everything away when it adds this one.
        egress = only(template, "EC2::SecurityGroupEgress")
        assert (egress["DestinationPrefixListId"], egress["ToPort"]) == (
            environment("prod").region.s3,
            443,
        )

    def test_weights_from_the_hub_are_fetched_over_sagemakers_own_network(
        self, from_hub: Template
    ) -> None:
        model = only(from_hub, "SageMaker::Model")
        assert model["EnableNetworkIsolation"] is False
        assert "VpcConfig" not in model
        assert model["PrimaryContainer"]["Environment"]["HF_MODEL_ID"] == "Qwen/Qwen3-8B"
        assert resources(from_hub, "AWS::EC2::SecurityGroup") == {}

    def test_the_role_reads_the_prefix_of_the_model_and_no_more(
        self, from_bucket: tuple[Template, InferenceStack], from_hub: Template
    ) -> None:
        with_weights, without = (
            {
                action: statement
                for policy in only(template, "IAM::Role")["Policies"]
                for statement in policy["PolicyDocument"]["Statement"]
                for action in (
                    [statement["Action"]]
                    if isinstance(statement["Action"], str)
                    else statement["Action"]
                )
            }
            for template in (from_bucket[0], from_hub)
        )
        assert ":s3:::weights/qwen/*" in json.dumps(with_weights["s3:GetObject"]["Resource"])
        assert with_weights["s3:ListBucket"]["Condition"] == {"StringLike": {"s3:prefix": "qwen/*"}}
        assert not [action for action in without if action.startswith(("s3:", "ec2:"))]
        anywhere = {
            action for action, statement in with_weights.items() if statement["Resource"] == "*"
        }
        assert {action for action in anywhere if not action.startswith("ec2:")} == {
            "ecr:GetAuthorizationToken",
            "cloudwatch:PutMetricData",
        }
        assert with_weights["cloudwatch:PutMetricData"]["Condition"]["StringEquals"] == {
            "cloudwatch:namespace": "/aws/sagemaker/Endpoints"
        }

    def test_in_a_vpc_of_somebody_elses_instances_are_in_the_private_subnets(self) -> None:
        """Such a VPC has a way out by NAT, and no isolated subnets."""
        stack = cdk.Stack(cdk.App(), "Foreign", env=cdk.Environment(region="us-east-1"))
        vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
        SageMakerEndpoint(stack, "Model", settings=with_endpoint(FROM_BUCKET), vpc=vpc)
        template = dict(assertions.Template.from_stack(stack).to_json())
        subnets = only(template, "SageMaker::Model")["VpcConfig"]["Subnets"]
        private = [{"Ref": stack.get_logical_id(each)} for each in _resources(vpc.private_subnets)]
        assert subnets == private
        assert len(subnets) == 2

    def test_vllm_runs_with_the_settings(
        self, from_bucket: tuple[Template, InferenceStack], from_hub: Template
    ) -> None:
        variables, plain = (
            only(template, "SageMaker::Model")["PrimaryContainer"]["Environment"]
            for template in (from_bucket[0], from_hub)
        )
        assert variables["OPTION_ENTRYPOINT"] == "djl_python.lmi_vllm.vllm_async_service"
        assert (variables["OPTION_ASYNC_MODE"], variables["OPTION_ROLLING_BATCH"]) == (
            "true",
            "disable",
        )
        assert (
            variables["OPTION_ENABLE_PREFIX_CACHING"],
            plain["OPTION_ENABLE_PREFIX_CACHING"],
        ) == ("true", "false")
        assert variables["OPTION_MAX_ROLLING_BATCH_SIZE"] == str(FROM_BUCKET.concurrent_sequences)
        assert json.loads(variables["OPTION_SPECULATIVE_CONFIG"]) == {
            "method": "ngram",
            "num_speculative_tokens": 4,
            "prompt_lookup_max": 4,
        }
        assert "OPTION_SPECULATIVE_CONFIG" not in plain
        # SageMaker takes strings only.
        assert all(isinstance(value, str) for value in variables.values())

    def test_an_image_for_cuda_13_gets_a_host_with_its_driver(self, from_hub: Template) -> None:
        image = json.dumps(only(from_hub, "SageMaker::Model")["PrimaryContainer"]["Image"])
        assert "-cu130" in image
        [variant] = only(from_hub, "SageMaker::EndpointConfig")["ProductionVariants"]
        assert variant["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"

    def test_requests_are_not_captured_and_no_key_is_named_for_local_disks(
        self, from_hub: Template
    ) -> None:
        config = only(from_hub, "SageMaker::EndpointConfig")
        assert "DataCaptureConfig" not in config
        assert "KmsKeyId" not in config

    def test_requests_of_one_prefix_stay_together_only_when_asked(
        self, from_bucket: tuple[Template, InferenceStack], from_hub: Template
    ) -> None:
        routing, plain = (
            only(template, "SageMaker::EndpointConfig")["ProductionVariants"][0]["RoutingConfig"]
            for template in (from_bucket[0], from_hub)
        )
        assert routing["RoutingStrategy"] == "PREFIX_AWARE"
        assert routing["PrefixAwareRoutingConfig"]["PrefixLength"] == 4_096
        assert plain == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}

    def test_instances_follow_the_streams_that_they_carry(
        self, from_bucket: tuple[Template, InferenceStack]
    ) -> None:
        template, _ = from_bucket
        target = only(template, "ApplicationAutoScaling::ScalableTarget")
        assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 4)
        assert target["ResourceId"] == "endpoint/evenflow-prod-model/variant/main"
        [variant] = only(template, "SageMaker::EndpointConfig")["ProductionVariants"]
        assert variant["VariantName"] == "main"
        policy = only(template, "ApplicationAutoScaling::ScalingPolicy")[
            "TargetTrackingScalingPolicyConfiguration"
        ]
        assert policy["TargetValue"] == FROM_BUCKET.requests_per_instance
        assert policy["PredefinedMetricSpecification"]["PredefinedMetricType"] == (
            "SageMakerVariantConcurrentRequestsPerModelHighResolution"
        )
        # A deployment must not take back what the autoscaling added.
        assert only(template, "SageMaker::Endpoint")["RetainAllVariantProperties"] is True

    def test_the_template_is_one_that_cloudformation_takes(
        self, from_bucket: tuple[Template, InferenceStack], from_hub: Template
    ) -> None:
        for template in (from_bucket[0], from_hub):
            assert not findings(template)

    def test_the_dashboard_shows_the_endpoint(self) -> None:
        board = json.dumps(observability_template(with_endpoint(FROM_HUB)))
        assert "ConcurrentRequestsPerModel" in board
        assert "evenflow-prod-model" in board


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"instances_min": 3, "instances_max": 2}, "instances_max"),
        ({"requests_per_instance": 200, "concurrent_sequences": 100}, "requests_per_instance"),
        ({"prefix_routing_bytes": 100}, "prefix_routing_bytes"),
        ({"model": "s3://bucket-without-prefix"}, "s3://bucket/prefix/"),
        ({"model": "s3://bucket/prefix-without-slash"}, "s3://bucket/prefix/"),
    ],
)
def test_settings_that_sagemaker_would_refuse_or_that_make_no_sense(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        SageMakerSettings(**wrong)
