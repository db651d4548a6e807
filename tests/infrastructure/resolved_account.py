"""The resources of all stacks as AWS would have them: names, ARNs and references filled in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from tests.infrastructure.synthesis import Synthesis

ACCOUNT = "111111111111"
_PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::NoValue": None,
}
# The property with a resource's name, and its ARN without `arn:aws:`. `Ref` is the name.
_NAMED = {
    "AWS::Bedrock::ApplicationInferenceProfile": (
        "",
        "bedrock:{region}:{account}:application-inference-profile/{name}",
    ),
    "AWS::DynamoDB::Table": ("TableName", "dynamodb:{region}:{account}:table/{name}"),
    "AWS::ECS::Cluster": ("ClusterName", "ecs:{region}:{account}:cluster/{name}"),
    "AWS::IAM::Role": ("RoleName", "iam::{account}:role/{name}"),
    "AWS::KMS::Key": ("", "kms:{region}:{account}:key/{name}"),
    "AWS::Logs::LogGroup": ("LogGroupName", "logs:{region}:{account}:log-group:{name}:*"),
    "AWS::S3::Bucket": ("BucketName", "s3:::{name}"),
    "AWS::SNS::Topic": ("TopicName", "sns:{region}:{account}:{name}"),
    "AWS::SQS::Queue": ("QueueName", "sqs:{region}:{account}:{name}"),
    "AWS::SecretsManager::Secret": ("Name", "secretsmanager:{region}:{account}:secret:{name}-aB1"),
}
_REF_IS_ARN = {"AWS::SNS::Topic", "AWS::SecretsManager::Secret"}


class Resource(NamedTuple):
    """A resource, with all that its properties refer to."""

    logical_id: str
    kind: str
    arn: str
    properties: Mapping[str, Any]


class ResolvedAccount:
    """What an environment's stacks make in an account."""

    def __init__(self, synthesis: Synthesis) -> None:
        self.settings = synthesis.settings
        self.region = synthesis.settings.region.name
        self._templates = synthesis.templates
        self._exports = {
            output["Export"]["Name"]: (stack, output["Value"])
            for stack, template in self._templates.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    @cached_property
    def resources(self) -> list[Resource]:
        """All of them."""
        return [
            Resource(
                logical_id,
                resource["Type"],
                self._arn(stack, logical_id, resource),
                self._resolved(stack, resource.get("Properties", {})),
            )
            for stack, template in self._templates.items()
            for logical_id, resource in template["Resources"].items()
        ]

    def of_kind(self, kind: str) -> Iterator[Resource]:
        """Those of a type."""
        return (resource for resource in self.resources if resource.kind == kind)

    def by_arn(self, arn: str) -> Resource:
        """The one with this ARN."""
        (found,) = (resource for resource in self.resources if resource.arn == arn)
        return found

    def arn_of_name(self, kind: str, name: str) -> str:
        """The ARN of a resource by its name."""
        return "arn:aws:" + _NAMED[kind][1].format(region=self.region, account=ACCOUNT, name=name)

    def _name(self, stack: str, logical_id: str, resource: Mapping[str, Any]) -> str:
        name_property = _NAMED.get(resource["Type"], ("", ""))[0]
        value = resource.get("Properties", {}).get(name_property)
        return str(self._resolved(stack, value)) if value else f"{stack}-{logical_id}".lower()

    def _arn(self, stack: str, logical_id: str, resource: Mapping[str, Any]) -> str:
        name = self._name(stack, logical_id, resource)
        kind = resource["Type"]
        return self.arn_of_name(kind, name) if kind in _NAMED else f"arn:{name}"

    def _resolved(self, stack: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._resolved(stack, inner) for inner in value]
        if not isinstance(value, dict):
            return value
        (name, argument), *rest = value.items() or [("", None)]
        if not rest and name in self._functions:
            return self._functions[name](stack, argument)
        return {name: self._resolved(stack, inner) for name, inner in value.items()}

    @cached_property
    def _functions(self) -> dict[str, Callable[[str, Any], Any]]:
        """Those of CloudFormation, by the name that templates call them by."""
        return {
            "Ref": self._ref,
            "Fn::GetAtt": lambda stack, argument: self._attribute(stack, *argument),
            "Fn::ImportValue": lambda _, export: self._resolved(*self._exports[export]),
            "Fn::Join": lambda stack, argument: argument[0].join(
                str(self._resolved(stack, part)) for part in argument[1]
            ),
            "Fn::Select": self._selected,
            "Fn::Split": lambda stack, argument: self._resolved(stack, argument[1]).split(
                argument[0]
            ),
            "Fn::Sub": self._substituted,
        }

    def _selected(self, stack: str, argument: tuple[int | str, Any]) -> Any:
        index, choices = argument
        parts = self._resolved(stack, choices)
        # What AWS makes, such as an address, has fewer parts here.
        return parts[min(int(index), len(parts) - 1)]

    def _substituted(self, stack: str, text: str) -> str:
        for name in {part.partition("}")[0] for part in text.split("${")[1:]}:
            text = text.replace("${" + name + "}", str(self._ref(stack, name)))
        return text

    def _ref(self, stack: str, name: str) -> Any:
        if name == "AWS::Region":
            return self.region
        if name in _PSEUDO:
            return _PSEUDO[name]
        template = self._templates[stack]
        if name not in template["Resources"]:
            return template["Parameters"][name]["Default"]
        resource = template["Resources"][name]
        if resource["Type"] == "AWS::SQS::Queue":
            queue = self._name(stack, name, resource)
            return f"https://sqs.{self.region}.amazonaws.com/{ACCOUNT}/{queue}"
        as_arn = resource["Type"] in _REF_IS_ARN
        return (self._arn if as_arn else self._name)(stack, name, resource)

    def _attribute(self, stack: str, name: str, attribute: str) -> str:
        resource = self._templates[stack]["Resources"][name]
        if attribute in ("Arn", "InferenceProfileArn"):
            return self._arn(stack, name, resource)
        return f"{self._name(stack, name, resource)}.{attribute}"


def as_list(value: Any) -> list[Any]:
    """What a policy may write as one or as several."""
    return value if isinstance(value, list) else [value]


def as_text(value: Any) -> str:
    """A policy as it is sent."""
    return json.dumps(value, separators=(",", ":"))
