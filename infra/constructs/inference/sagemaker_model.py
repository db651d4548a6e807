"""AWS's LMI container with vLLM, and the permissions of its instances."""

from __future__ import annotations

import json

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.inference_settings import SageMakerSettings

DLC_ACCOUNT = "763104351884"  # AWS's account with its deep learning containers, in most regions
_WEIGHTS = "/opt/ml/model"  # where SageMaker downloads to


def model_container(
    stack: Stack, model: SageMakerSettings
) -> sagemaker.CfnModel.ContainerDefinitionProperty:
    """The container, with weights from S3 or from Hugging Face."""
    from_bucket = model.model_bucket_and_prefix is not None
    source = sagemaker.CfnModel.ModelDataSourceProperty(
        s3_data_source=sagemaker.CfnModel.S3DataSourceProperty(
            s3_uri=model.model, s3_data_type="S3Prefix", compression_type="None"
        )
    )
    return sagemaker.CfnModel.ContainerDefinitionProperty(
        image=(
            f"{DLC_ACCOUNT}.dkr.ecr.{stack.region}.{stack.url_suffix}/djl-inference:{model.image}"
        ),
        environment=model_variables(model),
        model_data_source=source if from_bucket else None,
    )


def model_variables(model: SageMakerSettings) -> dict[str, str]:
    """vLLM's engine arguments as LMI takes them: OPTION_<ARGUMENT>."""
    variables = {
        "HF_MODEL_ID": _WEIGHTS if model.model_bucket_and_prefix else model.model,
        # vLLM's own asynchronous engine and OpenAI schema, instead of LMI's rolling batch.
        "OPTION_ASYNC_MODE": "true",
        "OPTION_ROLLING_BATCH": "disable",
        "OPTION_ENTRYPOINT": "djl_python.lmi_vllm.vllm_async_service",
        "OPTION_TENSOR_PARALLEL_DEGREE": str(model.tensor_parallel),
        "OPTION_MAX_MODEL_LEN": str(model.context_tokens),
        "OPTION_MAX_ROLLING_BATCH_SIZE": str(
            model.concurrent_sequences
        ),  # becomes vLLM's max_num_seqs
        "OPTION_ENABLE_PREFIX_CACHING": str(model.prefix_caching).lower(),
        "SERVING_FAIL_FAST": "true",  # if the model does not load, the deployment fails
    }
    if model.speculative_tokens:
        # N-grams need no second model, which a container without a network can't download.
        speculation = {
            "method": "ngram",
            "num_speculative_tokens": model.speculative_tokens,
            "prompt_lookup_max": 4,
        }
        variables["OPTION_SPECULATIVE_CONFIG"] = json.dumps(speculation)
    return variables


_NETWORK_INTERFACES = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)


def model_role(
    scope: Construct, construct_id: str, *, settings: EnvironmentSettings, endpoint_name: str
) -> iam.Role:
    """The model's execution role. Its policy is inline, so that it exists before the model."""
    stack = Stack.of(scope)
    log_group = f"log-group:/aws/sagemaker/Endpoints/{endpoint_name}:*"
    weights = settings.inference.sagemaker.model_bucket_and_prefix
    statements = [
        *_image(stack),
        *_logs_and_metrics(
            f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:{log_group}"
        ),
        *(_weights(stack, *weights) if weights else ()),
    ]
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        inline_policies={"model": iam.PolicyDocument(statements=statements)},
    )
    acknowledge(
        role,
        "IAM5[Resource::*]",
        "ecr:GetAuthorizationToken, cloudwatch:PutMetricData (held to one namespace) and the "
        "network interfaces of a model in a VPC have no resources that could be named before",
    )
    logs = (
        f"IAM5[Resource::arn:<AWS::Partition>:logs:{settings.region.name}"
        f":<AWS::AccountId>:{log_group}]"
    )
    acknowledge(role, logs, "SageMaker names the log streams of its instances itself")
    if weights:
        objects = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{'/'.join(weights)}*]"
        acknowledge(role, objects, "a model is many files; all of them are under this prefix")
    return role


def _image(stack: Stack) -> tuple[iam.PolicyStatement, ...]:
    # The repository belongs to AWS's account.
    repository = f"arn:{stack.partition}:ecr:{stack.region}:{DLC_ACCOUNT}:repository/djl-inference"
    return (
        _allow(
            repository,
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:GetDownloadUrlForLayer",
        ),
        _allow("*", "ecr:GetAuthorizationToken"),
    )


def _logs_and_metrics(log_group: str) -> tuple[iam.PolicyStatement, ...]:
    return (
        _allow(
            log_group,
            "logs:CreateLogGroup",
            "logs:CreateLogStream",
            "logs:DescribeLogStreams",
            "logs:PutLogEvents",
        ),
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Endpoints"}},
        ),
    )


def _weights(stack: Stack, bucket: str, prefix: str) -> tuple[iam.PolicyStatement, ...]:
    bucket_arn = f"arn:{stack.partition}:s3:::{bucket}"
    return (
        _allow(f"{bucket_arn}/{prefix}*", "s3:GetObject"),
        iam.PolicyStatement(
            actions=["s3:ListBucket"],
            resources=[bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"{prefix}*"}},
        ),
        _allow("*", *_NETWORK_INTERFACES),
    )


def _allow(resource: str, *actions: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=[resource])
