"""What SageMaker may do for the model's instances: fetch image and weights, write logs, stand in the VPC."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.constructs.model_container import DLC_ACCOUNT
from infra.settings import EnvironmentSettings

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


def model_role(scope: Construct, construct_id: str, *, settings: EnvironmentSettings, endpoint_name: str) -> iam.Role:
    """The execution role of the model. Its policy is part of it, so that it is there when the model is made."""
    stack = Stack.of(scope)
    log_group = f"log-group:/aws/sagemaker/Endpoints/{endpoint_name}:*"
    weights = settings.inference.sagemaker.model_bucket_and_prefix
    statements = [
        *_image(stack),
        *_logs_and_metrics(f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:{log_group}"),
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
        "ecr:GetAuthorizationToken, cloudwatch:PutMetricData (held to one namespace) and the network interfaces of a model in a "
        "VPC have no resources that could be named before",
    )
    logs = f"IAM5[Resource::arn:<AWS::Partition>:logs:{settings.region.name}:<AWS::AccountId>:{log_group}]"
    acknowledge(role, logs, "SageMaker names the log streams of its instances itself")
    if weights:
        objects = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{'/'.join(weights)}*]"
        acknowledge(role, objects, "a model is many files; all of them are under this prefix")
    return role


def _image(stack: Stack) -> tuple[iam.PolicyStatement, ...]:
    # The repository belongs to AWS's account.
    repository = f"arn:{stack.partition}:ecr:{stack.region}:{DLC_ACCOUNT}:repository/djl-inference"
    return (
        _allow(repository, "ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
        _allow("*", "ecr:GetAuthorizationToken"),
    )


def _logs_and_metrics(log_group: str) -> tuple[iam.PolicyStatement, ...]:
    return (
        _allow(
            log_group, "logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"
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
