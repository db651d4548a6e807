"""`cdk bootstrap` and `cdk deploy` of the real app against the emulator, and what was created by
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.aws.cloud_assembly import CloudAssembly, ImageAsset, run_cdk
from tests.integration.aws_emulator import REGION, AwsEmulator

_TASK_DEFINITION = "AWS::ECS::TaskDefinition"
_MANIFEST = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
    "config": {
        "mediaType": "application/vnd.docker.container.image.v1+json",
        "size": 2,
        "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    },
    "layers": [],
}


@dataclass(frozen=True)
class DeployedFunction:
    """A Lambda function as it was created.

    `concurrency` is what the template reserves for it, None when nothing: the emulator doesn't keep
    it.
    """

    name: str
    arn: str
    handler: str
    timeout_seconds: int
    memory_mib: int
    concurrency: int | None
    environment: Mapping[str, str]


class Deployment:
    """The app as it stands in the emulator.

    Args:
        assembly: what was deployed.
    """

    def __init__(self, aws: AwsEmulator, assembly: CloudAssembly) -> None:
        self.aws = aws
        self.assembly = assembly
        self.account: str = aws.client("sts").get_caller_identity()["Account"]

    def deploy(self, log: Path) -> None:
        """Bootstrap and deploy every stack.

        Raises:
            CdkError: the command line failed.
        """
        app = ["--app", str(self.assembly.folder)]
        run_cdk(["bootstrap", f"aws://{self.account}/{REGION}", *app], self.aws.environment, log)
        for image in self.assembly.images():
            self._push(image)
        run_cdk(["deploy", "--all", "--require-approval", "never", *app], self.aws.environment, log)

    def physical_ids(self, stack: str) -> dict[str, str]:
        """Logical id → physical id of the resources that the emulator says it created."""
        pages = (
            self.aws.client("cloudformation")
            .get_paginator("list_stack_resources")
            .paginate(StackName=stack)
        )
        summaries = (summary for page in pages for summary in page["StackResourceSummaries"])
        return {
            s["LogicalResourceId"]: s["PhysicalResourceId"]
            for s in summaries
            if s.get("PhysicalResourceId")
        }

    def function(self, logical_id: str) -> DeployedFunction:
        """The function with this logical id in whichever stack it is."""
        name = self._physical_id(logical_id)
        client = self.aws.client("lambda")
        configuration = client.get_function_configuration(FunctionName=name)
        return DeployedFunction(
            name=configuration["FunctionName"],
            arn=configuration["FunctionArn"],
            handler=configuration["Handler"],
            timeout_seconds=configuration["Timeout"],
            memory_mib=configuration["MemorySize"],
            concurrency=self._template_properties(logical_id).get("ReservedConcurrentExecutions"),
            environment=configuration["Environment"]["Variables"],
        )

    def container_environment(self) -> dict[str, str]:
        """The variables of the handler's container, from the task definition."""
        (logical_id,) = (
            name
            for template in self.assembly.templates.values()
            for name, resource in template["Resources"].items()
            if resource["Type"] == _TASK_DEFINITION
        )
        described = self.aws.client("ecs").describe_task_definition(
            taskDefinition=self._physical_id(logical_id)
        )
        (container,) = described["taskDefinition"]["containerDefinitions"]
        return {variable["name"]: variable["value"] for variable in container["environment"]}

    def _physical_id(self, logical_id: str) -> str:
        (found,) = (
            ids[logical_id]
            for stack in self.assembly.templates
            if logical_id in (ids := self.physical_ids(stack))
        )
        return found

    def _template_properties(self, logical_id: str) -> Mapping[str, Any]:
        (found,) = (
            template["Resources"][logical_id]["Properties"]
            for template in self.assembly.templates.values()
            if logical_id in template["Resources"]
        )
        properties: Mapping[str, Any] = found
        return properties

    def _push(self, image: ImageAsset) -> None:
        # There is no Docker here: ECR is told that the image has been pushed, so `cdk deploy` has
        # none to build. Nothing runs from it: the handlers run from this repository.
        repository = image.repository.replace("${AWS::AccountId}", self.account).replace(
            "${AWS::Region}", REGION
        )
        manifest: Any = json.dumps(_MANIFEST)
        self.aws.client("ecr").put_image(
            repositoryName=repository, imageTag=image.tag, imageManifest=manifest
        )
