"""A SageMaker endpoint on GPUs: vLLM in AWS's LMI container, scaled by its concurrent streams."""

from __future__ import annotations

import json

from aws_cdk import Stack
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.network.security_groups import private_subnets
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.inference_settings import SageMakerSettings
from evenflow.infra.settings.regions import Region

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


VARIANT = "main"
# The API's reference needs the first one for streams. AWS's own managed policies grant both.
_ACTIONS = ("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream")
_SCALE_OUT_SECONDS, _SCALE_IN_SECONDS = 60, 900  # an instance takes minutes to start


def endpoint_name(settings: EnvironmentSettings) -> str:
    """The endpoint's name, which its callers use."""
    return f"{settings.prefix}-model"


class SageMakerEndpoint(Construct):
    """The endpoint, and the permission to call it.

    Requests and answers are not captured. There is no KMS key: these instances keep the model on
    local disks, which are encrypted in hardware. KmsKeyId does not apply to them, by the API's
    reference.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings, vpc: ec2.IVpc
    ) -> None:
        super().__init__(scope, construct_id)
        model = settings.inference.sagemaker
        config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[_variant(model, self._model(settings, vpc).attr_model_name)],
        )
        endpoint = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=endpoint_name(settings),
            endpoint_config_name=config.attr_endpoint_config_name,
            # A new configuration keeps the instances that the autoscaling added.
            retain_all_variant_properties=True,
        )
        self._scale(model, endpoint)
        arn = Stack.of(self).format_arn(
            service="sagemaker", resource="endpoint", resource_name=endpoint_name(settings)
        )
        self.model_access = ModelAccess(
            kind="sagemaker",
            name=endpoint_name(settings),
            statements=[
                iam.PolicyStatement(sid="Endpoint", actions=list(_ACTIONS), resources=[arn])
            ],
        )

    def _model(self, settings: EnvironmentSettings, vpc: ec2.IVpc) -> sagemaker.CfnModel:
        model = settings.inference.sagemaker
        from_bucket = model.model_bucket_and_prefix is not None
        role = model_role(self, "Role", settings=settings, endpoint_name=endpoint_name(settings))
        return sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=role.role_arn,
            primary_container=model_container(Stack.of(self), model),
            # SageMaker gets weights from S3 through the VPC. The container needs no network then.
            enable_network_isolation=from_bucket,
            vpc_config=self._vpc_config(vpc, settings.region) if from_bucket else None,
        )

    def _vpc_config(self, vpc: ec2.IVpc, region: Region) -> sagemaker.CfnModel.VpcConfigProperty:
        group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=vpc,
            description="Model instances: reach S3 alone",
            allow_all_outbound=False,
        )
        group.add_egress_rule(ec2.Peer.prefix_list(region.s3), ec2.Port.tcp(443), "Weights")
        return sagemaker.CfnModel.VpcConfigProperty(
            security_group_ids=[group.security_group_id],
            subnets=vpc.select_subnets(subnet_type=private_subnets(vpc).subnet_type).subnet_ids,
        )

    def _scale(self, model: SageMakerSettings, endpoint: sagemaker.CfnEndpoint) -> None:
        # Without a role: Application Auto Scaling uses its service-linked one.
        target = scaling.CfnScalableTarget(
            self,
            "ScalableTarget",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=f"endpoint/{endpoint.endpoint_name}/variant/{VARIANT}",
            min_capacity=model.instances_min,
            max_capacity=model.instances_max,
        )
        target.node.add_dependency(endpoint)
        scaling.CfnScalingPolicy(
            self,
            "StreamsPerInstance",
            policy_name="streams-per-instance",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.ref,
            target_tracking_scaling_policy_configuration=scaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty(
                target_value=model.requests_per_instance,
                # It counts a stream until its last token, every ten seconds. Invocations per
                # minute miss its length.
                predefined_metric_specification=scaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty(
                    predefined_metric_type=(
                        "SageMakerVariantConcurrentRequestsPerModelHighResolution"
                    )
                ),
                scale_out_cooldown=_SCALE_OUT_SECONDS,
                scale_in_cooldown=_SCALE_IN_SECONDS,
            ),
        )


def _variant(
    model: SageMakerSettings, model_name: str
) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
    return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
        variant_name=VARIANT,
        model_name=model_name,
        instance_type=model.instance_type,
        initial_instance_count=model.instances_min,
        initial_variant_weight=1,
        inference_ami_version=model.host_image,
        model_data_download_timeout_in_seconds=model.start_seconds,
        container_startup_health_check_timeout_in_seconds=model.start_seconds,
        routing_config=_routing(model),
    )


def _routing(model: SageMakerSettings) -> sagemaker.CfnEndpointConfig.RoutingConfigProperty:
    if not model.prefix_routing_bytes:
        return sagemaker.CfnEndpointConfig.RoutingConfigProperty(
            routing_strategy="LEAST_OUTSTANDING_REQUESTS"
        )
    return sagemaker.CfnEndpointConfig.RoutingConfigProperty(
        routing_strategy="PREFIX_AWARE",
        prefix_aware_routing_config=sagemaker.CfnEndpointConfig.PrefixAwareRoutingConfigProperty(
            prefix_length=model.prefix_routing_bytes,
            concurrency_threshold=model.requests_per_instance,
        ),
    )
