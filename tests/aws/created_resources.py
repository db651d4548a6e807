"""What an emulator says about a resource that it created, in the shape of the template's
properties.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from tests.integration.aws_emulator import AwsEmulator

Properties = Mapping[str, Any]

NOT_READABLE = {
    "AWS::CloudFront::Function": ("FunctionCode", "AutoPublish"),
    "AWS::Lambda::Function": ("Code",),
    "AWS::Lambda::LayerVersion": ("Content",),
    "AWS::SecretsManager::Secret": ("GenerateSecretString",),
}
"""Properties that no call of the service gives back as they were written."""


def created_properties(aws: AwsEmulator, kind: str, physical_id: str) -> Properties | None:
    """The properties of a resource as its service describes it; None for a kind that nobody
    describes here.
    """
    describe = _DESCRIBERS.get(kind)
    return describe(aws.client, physical_id) if describe else None


Client = Callable[[str], Any]


def _table(client: Client, name: str) -> Properties:
    dynamodb = client("dynamodb")
    table = dynamodb.describe_table(TableName=name)["Table"]
    expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    recovery = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
    return {
        **table,
        "BillingMode": table.get("BillingModeSummary", {}).get("BillingMode"),
        "TimeToLiveSpecification": {**expiry, "Enabled": expiry["TimeToLiveStatus"] == "ENABLED"},
        "SSESpecification": {
            "SSEEnabled": table.get("SSEDescription", {}).get("Status") == "ENABLED"
        },
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": recovery == "ENABLED"},
    }


def _function(client: Client, name: str) -> Properties:
    functions = client("lambda")
    concurrency: Properties = functions.get_function_concurrency(FunctionName=name)
    return {**functions.get_function_configuration(FunctionName=name), **concurrency}


def _load_balancer(client: Client, arn: str) -> Properties:
    elbv2 = client("elbv2")
    (balancer,) = elbv2.describe_load_balancers(LoadBalancerArns=[arn])["LoadBalancers"]
    attributes = elbv2.describe_load_balancer_attributes(LoadBalancerArn=arn)["Attributes"]
    return {**balancer, "LoadBalancerAttributes": attributes}


def _target_group(client: Client, arn: str) -> Properties:
    elbv2 = client("elbv2")
    (group,) = elbv2.describe_target_groups(TargetGroupArns=[arn])["TargetGroups"]
    attributes = elbv2.describe_target_group_attributes(TargetGroupArn=arn)["Attributes"]
    return {**group, "TargetGroupAttributes": attributes}


def _vpc(client: Client, vpc: str) -> Properties:
    ec2 = client("ec2")
    (described,) = ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"]
    names = ("enableDnsSupport", "enableDnsHostnames")
    switches = {
        n: ec2.describe_vpc_attribute(VpcId=vpc, Attribute=n)[n[0].upper() + n[1:]]["Value"]
        for n in names
    }
    return {**described, **switches}


def _security_group(client: Client, group: str) -> Properties:
    (described,) = client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"]
    egress = [
        {**permission, **address}
        for permission in described["IpPermissionsEgress"]
        for address in permission.get("IpRanges", [])
    ]
    return {
        **described,
        "GroupDescription": described["Description"],
        "SecurityGroupEgress": egress,
    }


def _bucket(client: Client, name: str) -> Properties:
    s3 = client("s3")
    rules = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
    encryption = [
        {"ServerSideEncryptionByDefault": rule["ApplyServerSideEncryptionByDefault"]}
        for rule in rules
    ]
    logging = s3.get_bucket_logging(Bucket=name).get("LoggingEnabled", {})
    return {
        "BucketEncryption": {"ServerSideEncryptionConfiguration": encryption},
        "LifecycleConfiguration": _unless_missing(s3.get_bucket_lifecycle_configuration, name),
        "LoggingConfiguration": {"LogFilePrefix": logging.get("TargetPrefix")},
        "OwnershipControls": _unless_missing(s3.get_bucket_ownership_controls, name).get(
            "OwnershipControls"
        ),
        "PublicAccessBlockConfiguration": s3.get_public_access_block(Bucket=name)[
            "PublicAccessBlockConfiguration"
        ],
    }


def _unless_missing(read: Callable[..., Properties], bucket: str) -> Properties:
    try:
        return read(Bucket=bucket)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        return {}


def _role(client: Client, name: str) -> Properties:
    role: Properties = client("iam").get_role(RoleName=name)["Role"]
    return {"AssumeRolePolicyDocument": role["AssumeRolePolicyDocument"]}


def _key(client: Client, key: str) -> Properties:
    kms = client("kms")
    policy = json.loads(kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    return {
        "EnableKeyRotation": kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"],
        "KeyPolicy": policy,
    }


def _cluster(client: Client, name: str) -> Properties:
    (cluster,) = client("ecs").describe_clusters(clusters=[name], include=["SETTINGS"])["clusters"]
    return {**cluster, "ClusterSettings": cluster.get("settings")}


def _of_the_api(operation: str, id_name: str) -> Callable[[Client, str], Properties]:
    def describe(client: Client, physical_id: str) -> Properties:
        api = client("apigatewayv2")
        (only,) = api.get_apis()["Items"]
        # ministack's physical ids have the API's in front.
        own_id = physical_id.rpartition("/")[2]
        found: Properties = getattr(api, operation)(ApiId=only["ApiId"], **{id_name: own_id})
        return found

    return describe


def _one_of(
    service: str, operation: str, list_name: str, id_name: str, *, plural: bool = True
) -> Any:
    """Describes by a call that takes ids and returns a list of one."""

    def describe(client: Client, physical_id: str) -> Properties:
        given = [physical_id] if plural else physical_id
        found: Properties = getattr(client(service), operation)(**{id_name: given})[list_name][0]
        return found

    return describe


def _service(client: Client, arn: str) -> Properties:
    cluster = arn.split("/")[-2]
    found: Properties = client("ecs").describe_services(cluster=cluster, services=[arn])[
        "services"
    ][0]
    return found


def _api(client: Client, api_id: str) -> Properties:
    found: Properties = client("apigatewayv2").get_api(ApiId=api_id)
    return found


def _queue(client: Client, url: str) -> Properties:
    attributes: Properties = client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["All"]
    )["Attributes"]
    return {**attributes, "QueueName": attributes["QueueArn"].rpartition(":")[2]}


def _secret(client: Client, secret: str) -> Properties:
    found: Properties = client("secretsmanager").describe_secret(SecretId=secret)
    return found


_DESCRIBERS: Mapping[str, Callable[[Client, str], Properties]] = {
    "AWS::ApiGatewayV2::Api": _api,
    "AWS::ApiGatewayV2::Integration": _of_the_api("get_integration", "IntegrationId"),
    "AWS::ApiGatewayV2::Route": _of_the_api("get_route", "RouteId"),
    "AWS::ApiGatewayV2::Stage": _of_the_api("get_stage", "StageName"),
    "AWS::CloudWatch::Alarm": _one_of(
        "cloudwatch", "describe_alarms", "MetricAlarms", "AlarmNames"
    ),
    "AWS::DynamoDB::Table": _table,
    "AWS::EC2::SecurityGroup": _security_group,
    "AWS::EC2::Subnet": _one_of("ec2", "describe_subnets", "Subnets", "SubnetIds"),
    "AWS::EC2::VPC": _vpc,
    "AWS::EC2::VPCEndpoint": _one_of(
        "ec2", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointIds"
    ),
    "AWS::ECS::Cluster": _cluster,
    "AWS::ECS::Service": _service,
    "AWS::ECS::TaskDefinition": lambda client, arn: client("ecs").describe_task_definition(
        taskDefinition=arn
    )["taskDefinition"],
    "AWS::ElasticLoadBalancingV2::Listener": _one_of(
        "elbv2", "describe_listeners", "Listeners", "ListenerArns"
    ),
    "AWS::ElasticLoadBalancingV2::ListenerRule": _one_of(
        "elbv2", "describe_rules", "Rules", "RuleArns"
    ),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": _load_balancer,
    "AWS::ElasticLoadBalancingV2::TargetGroup": _target_group,
    "AWS::IAM::Role": _role,
    "AWS::KMS::Key": _key,
    "AWS::Lambda::Function": _function,
    "AWS::Logs::LogGroup": _one_of(
        "logs", "describe_log_groups", "logGroups", "logGroupNamePrefix", plural=False
    ),
    "AWS::S3::Bucket": _bucket,
    "AWS::SQS::Queue": _queue,
    "AWS::SecretsManager::Secret": _secret,
}
