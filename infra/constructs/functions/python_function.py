"""One Lambda function of functions/."""

from __future__ import annotations

from aws_cdk import AssetHashType, Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from evenflow.infra.assets import function_package
from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.metrics import METRIC_NAMESPACE
from evenflow.infra.constructs.network.security_groups import private_subnets
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.settings.environment_settings import EnvironmentSettings

_IN_VPC = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
"""The actions of Lambda for a function in a VPC, as in AWSLambdaVPCAccessExecutionRole."""


class PythonFunction(Construct):
    """A function on Graviton with its own role, log group and tracing.

    Args:
        name: the folder in functions/. Its module `handler` has the function `handler`.
        concurrency: the reserved concurrent executions. None: the account's unreserved ones.
        memory_mib: None: that of FunctionSettings.
        vpc: the function runs in the private subnets of this VPC. None: it runs in no VPC.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        description: str,
        settings: EnvironmentSettings,
        timeout_seconds: int,
        concurrency: int | None,
        environment: dict[str, str],
        memory_mib: int | None = None,
        vpc: ec2.IVpc | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        public_name = name.replace("_", "-")
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        logs = log_group(self, "Logs", f"/{settings.log_path}/{public_name}", settings)
        logs.grant_write(self.role)
        package = function_package.build(name)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=f"{settings.prefix}-{public_name}",
            description=description,
            runtime=lambda_.Runtime.PYTHON_3_12,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"evenflow.functions.{name}.handler.handler",
            code=lambda_.Code.from_asset(
                str(package.folder),
                asset_hash=package.input_hash,
                asset_hash_type=AssetHashType.CUSTOM,
            ),
            role=self.role,
            log_group=logs,
            logging_format=lambda_.LoggingFormat.JSON,
            # Lambda's own lines of a call that went well are as long as ours, and paid for.
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            memory_size=memory_mib or settings.functions.memory_mib,
            timeout=Duration.seconds(timeout_seconds),
            reserved_concurrent_executions=concurrency,
            tracing=lambda_.Tracing.ACTIVE,
            vpc=vpc,
            vpc_subnets=private_subnets(vpc) if vpc else None,
            environment={
                "EVENFLOW_METRICS_ENVIRONMENT": settings.prefix,
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_METRICS_NAMESPACE": METRIC_NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": "INFO",
                **environment,
            },
        )
        if vpc is not None:
            self.role.add_to_policy(iam.PolicyStatement(actions=list(_IN_VPC), resources=["*"]))
            # Lambda checks these rights when the function is created.
            self.function.node.add_dependency(self.role)
        acknowledge(
            self.role,
            "IAM5[Resource::*]",
            "xray:PutTraceSegments and PutTelemetryRecords have no resources, nor have the network "
            "interfaces that Lambda is yet to make",
        )
        acknowledge(
            self.function,
            "L1",
            "3.12 is what requirements/functions.txt is locked for; it has support until October "
            "2028",
        )
