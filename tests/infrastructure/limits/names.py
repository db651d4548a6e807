"""Limits of the names that this repository sets, by service."""

from __future__ import annotations

from collections.abc import Iterator

from tests.infrastructure.limits.deployment import Deployment
from tests.infrastructure.limits.limit import Fault, Limit, text

_BUCKET = "AWS::S3::Bucket"
_WORD = "[a-zA-Z0-9_-]+"


def _tags(deployment: Deployment) -> Iterator[str]:
    for stack, template in deployment.templates.items():
        for name, resource in template["Resources"].items():
            tags = resource.get("Properties", {}).get("Tags", [])
            pairs = (
                tags.items()
                if isinstance(tags, dict)
                else [(tag["Key"], tag["Value"]) for tag in tags]
            )
            where = f"{stack}/{name}"
            if len(pairs) > 50:
                yield f"{where}: {len(pairs)} tags"
            for key, value in pairs:
                written = deployment.text(value, stack)
                if len(key) > 128 or len(written) > 256 or key.lower().startswith("aws:"):
                    yield f"{where}: tag {key}"


def _tagged(*tags: tuple[str, str]) -> Fault:
    def fault(deployment: Deployment) -> None:
        deployment.first(_BUCKET)["Tags"] = [{"Key": key, "Value": value} for key, value in tags]

    return fault


LIMITS = (
    text("AWS::DynamoDB::Table", "TableName",
         "amazondynamodb/latest/APIReference/API_CreateTable.html",
         longest=255, pattern="[a-zA-Z0-9_.-]{3,}"),
    text("AWS::SQS::Queue", "QueueName",
         "AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html",
         longest=80, pattern=_WORD),
    text("AWS::SNS::Topic", "TopicName", "sns/latest/api/API_CreateTopic.html",
         longest=256, pattern=_WORD),
    text("AWS::SNS::Topic", "DisplayName", "sns/latest/api/API_SetTopicAttributes.html",
         longest=100, optional=True),
    text("AWS::Logs::LogGroup", "LogGroupName",
         "AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html",
         longest=512, pattern=r"[.\-_/#A-Za-z0-9]+"),
    text(_BUCKET, "BucketName", "AmazonS3/latest/userguide/bucketnamingrules.html",
         longest=63,
         pattern=r"(?!xn--|sthree-|amzn-s3-demo-)(?!.*(-s3alias|--ol-s3|\.mrap|\.\.))"
         "[a-z0-9][a-z0-9.-]+[a-z0-9]", optional=True),
    text("AWS::ApplicationAutoScaling::ScalingPolicy", "PolicyName",
         "autoscaling/application/APIReference/API_PutScalingPolicy.html",
         longest=256, pattern=r"\p{Print}+"),
    text("AWS::ApiGatewayV2::Api", "Name", "apigatewayv2/latest/api-reference/apis.html",
         longest=128),
    text("AWS::Events::Rule", "Description",
         "eventbridge/latest/APIReference/API_PutRule.html", longest=512),
    text("AWS::ServiceDiscovery::HttpNamespace", "Name",
         "cloud-map/latest/api/API_CreateHttpNamespace.html",
         longest=1_024, pattern="[!-~]+", on="staging-workers"),
    text("AWS::SageMaker::Endpoint", "EndpointName",
         "sagemaker/latest/APIReference/API_CreateEndpoint.html",
         longest=63, pattern="[a-zA-Z0-9](-*[a-zA-Z0-9])*", on="choosy"),
    text("AWS::CertificateManager::Certificate", "DomainName",
         "acm/latest/userguide/acm-concepts.html", longest=64,
         pattern=r"(\*\.)?([a-z0-9-]+\.)+[a-z]+", on="prod-zone/eu-west-1/acme"),
    Limit("a resource: 50 tags, and how they are written",
          "tag-editor/latest/userguide/best-practices-and-strats.html", _tags,
          (_tagged(*((f"t{number}", "1") for number in range(51))), _tagged(("k" * 129, "1")),
           _tagged(("k", "v" * 257)), _tagged(("aws:k", "1")))),
)  # fmt: skip
