"""What each process of an environment needs of AWS, and whether it may do it.

A request passes if no policy denies it, if the role's own policies (or the resource's) allow it, if
those of its key do, and those of the VPC endpoint that it goes through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tests.aws_calls import OPERATOR, Called, called
from tests.infrastructure.iam_evaluation import (
    ApiRequest,
    Decision,
    Statement,
    applies,
    decide,
    matches,
)
from tests.infrastructure.resolved_account import ACCOUNT, ResolvedAccount, Resource, as_list

_FUNCTIONS = {"canary", "poll_response", "rotate_signing_keys", "session_init", "usage_file"}
# What reading and writing needs of the key of encrypted data, which the service uses for the
# caller: DynamoDB decrypts the table's key for each principal, S3 and SQS make keys of data.
_KEY_USES = {
    "dynamodb:": ("kms:Decrypt",),
    "s3:GetObject": ("kms:Decrypt",),
    "s3:PutObject": ("kms:Decrypt", "kms:GenerateDataKey"),
    "secretsmanager:GetSecretValue": ("kms:Decrypt",),
    "secretsmanager:PutSecretValue": ("kms:Decrypt", "kms:GenerateDataKey"),
    "sqs:SendMessage": ("kms:Decrypt", "kms:GenerateDataKey"),
}
_KEY_PROPERTIES = (
    ("SSESpecification", "KMSMasterKeyId"),
    ("KmsKeyId",),
    ("KmsMasterKeyId",),
    (
        "BucketEncryption", "ServerSideEncryptionConfiguration", 0,
        "ServerSideEncryptionByDefault", "KMSMasterKeyID",
    ),
)  # fmt: skip
_ENDPOINTS = {
    "bedrock": ("bedrock-runtime",),
    "cloudwatch": ("monitoring",),
    "ecr": ("ecr.api", "ecr.dkr"),
    "sagemaker": ("sagemaker.runtime",),
}
_POLICIES_OF_RESOURCES = {
    "AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy", "AWS::SecretsManager::ResourcePolicy",
}  # fmt: skip
_ONLY_WHERE_SET = {
    "EVENFLOW_BEDROCK_GUARDRAIL", "EVENFLOW_FILTER_GUARDRAIL", "EVENFLOW_MODEL_NAME",
}  # fmt: skip


@dataclass(frozen=True)
class Process:
    """What runs with a role.

    Args:
        in_vpc: whether it reaches AWS through the VPC's endpoints alone.
    """

    name: str
    role: str
    variables: Mapping[str, str]
    in_vpc: bool


class Need(NamedTuple):
    """A request that a process must be allowed to make."""

    process: Process
    request: ApiRequest
    key: str | None = None
    """The key with which the resource is encrypted."""


class ProcessPermissions:
    """The processes of one environment and the policies about them."""

    def __init__(self, account: ResolvedAccount) -> None:
        self.account = account
        self.settings = account.settings
        self.processes = {process.name: process for process in self._processes()}
        self.processes["model"] = self.processes.get("worker", self.processes["handler"])
        self.replaced: dict[str, list[Statement]] = {}
        """By role, what counts instead of its statements."""

    # -- the processes -----------------------------------------------------------------------------

    def _processes(self) -> Iterator[Process]:
        private = not self.settings.network.tasks_are_public
        for task in self.account.of_kind("AWS::ECS::TaskDefinition"):
            main = task.properties["ContainerDefinitions"][0]
            variables = {each["Name"]: each["Value"] for each in main["Environment"]}
            roles = task.properties["TaskRoleArn"], task.properties["ExecutionRoleArn"]
            yield Process(main["Name"], roles[0], variables, private)
            # ECS' agent, which begins the task from inside the task's network.
            yield Process(f"agent of {main['Name']}", roles[1], variables, private)
        for function in self.account.of_kind("AWS::Lambda::Function"):
            name = str(function.properties["Handler"]).removeprefix("evenflow.functions.")
            name = name.removesuffix(".handler.handler")
            if name in _FUNCTIONS:
                variables = function.properties["Environment"]["Variables"]
                yield Process(name, function.properties["Role"], variables, in_vpc=False)

    # -- what they need ----------------------------------------------------------------------------

    @cached_property
    def needs(self) -> list[Need]:
        """All requests of all processes."""
        ours = (need for call in sorted(called()) for need in self._of_call(call))
        return [*ours, *self._of_aws()]

    def _of_call(self, call: Called) -> Iterator[Need]:
        if call.process == OPERATOR or (call.process == "canary" and self.settings.canary is None):
            return
        process = self.processes[call.process]
        variable, _, part = call.resource.partition(" ")
        if variable in _ONLY_WHERE_SET and variable not in process.variables:
            return
        match variable, call.action.partition(":")[0]:
            case ("namespace", _):
                yield self._need(process, call.action, "*", {"cloudwatch:namespace": part})
            case ("task" | "service", _):
                yield self._need(process, call.action, self._of_ecs(variable))
            case ("EVENFLOW_MODEL_NAME", service):
                yield from self._of_model(process, call.action, service)
            case ("EVENFLOW_BEDROCK_GUARDRAIL" | "EVENFLOW_FILTER_GUARDRAIL", _):
                name = process.variables[variable].rpartition(":")[0]
                own = f"arn:aws:bedrock:{self.account.region}:{ACCOUNT}:guardrail/{name}"
                arn = name if name.startswith("arn:") else own
                yield self._need(process, call.action, arn)
            case (_, "dynamodb" | "s3" | "secretsmanager" | "sqs"):
                yield self._of_data(process, call, variable, part)
            case _:
                raise AssertionError(f"{call} is not evaluated")

    def _of_data(self, process: Process, call: Called, variable: str, part: str) -> Need:
        resource = self.account.by_arn(self._arn(process, call, variable))
        arn, context = resource.arn, {}
        match part.split():
            case ["index", index]:
                arn = f"{arn}/index/{index}"
            case ["object", prefix]:
                arn = f"{arn}/{prefix}an-object"
            case ["prefix", prefix]:
                context = {"s3:prefix": prefix}
        return self._need(process, call.action, arn, context)._replace(key=_key_of(resource))

    def _arn(self, process: Process, call: Called, variable: str) -> str:
        if process.name == "rotate_signing_keys":  # Secrets Manager says which one
            (schedule,) = self.account.of_kind("AWS::SecretsManager::RotationSchedule")
            return str(schedule.properties["SecretId"])
        value = process.variables[variable]
        match call.action.partition(":")[0]:
            case "dynamodb":
                return self.account.arn_of_name("AWS::DynamoDB::Table", value)
            case "s3":
                return self.account.arn_of_name("AWS::S3::Bucket", value)
            case "sqs":
                return self.account.arn_of_name("AWS::SQS::Queue", value.rpartition("/")[2])
            case _:
                return value

    def _of_ecs(self, kind: str) -> str:
        (service,) = (
            service.properties
            for service in self.account.of_kind("AWS::ECS::Service")
            if service.properties["ServiceName"].endswith("-handler")
        )
        name = {"service": service["ServiceName"], "task": "0123456789abcdef"}[kind]
        return f"arn:aws:ecs:{self.account.region}:{ACCOUNT}:{kind}/{service['Cluster']}/{name}"

    def _of_model(self, process: Process, action: str, service: str) -> Iterator[Need]:
        kind, region = self.settings.inference.kind, self.account.region
        if kind != service:
            return
        name = process.variables["EVENFLOW_MODEL_NAME"]
        if kind == "sagemaker":
            arn = f"arn:aws:sagemaker:{region}:{ACCOUNT}:endpoint/{name}"
            yield self._need(process, action, arn)
            return
        model = self.settings.inference.bedrock
        through = {"bedrock:InferenceProfileArn": name}
        yield self._need(process, action, name)
        source = f"arn:aws:bedrock:{region}:{ACCOUNT}:inference-profile/{model.inference_profile}"
        yield self._need(process, action, source, through)
        for place in (region,) if model.is_global else model.regions:
            arn = f"arn:aws:bedrock:{place}::foundation-model/{model.foundation_model}"
            yield self._need(process, action, arn, through)
        if model.is_global:
            arn = f"arn:aws:bedrock:::foundation-model/{model.foundation_model}"
            anywhere = {**through, "aws:RequestedRegion": "unspecified"}
            yield self._need(process, action, arn, anywhere)

    def _of_aws(self) -> Iterator[Need]:
        """What AWS' own agents do with the roles: no call of our code shows it."""
        for function in self.account.of_kind("AWS::Lambda::Function"):
            for process in self.processes.values():
                if function.properties["Role"] == process.role:
                    yield from self._of_logs(process, function.properties["LoggingConfig"])
                    yield from self._of_traces(process)
        for task in self.account.of_kind("AWS::ECS::TaskDefinition"):
            yield from self._of_task(task)
        # When a task asks the agent for it; AWS' page on that wants both.
        for action in ("ecs:GetTaskProtection", "ecs:UpdateTaskProtection"):
            yield self._need(self.processes["handler"], action, self._of_ecs("task"))

    def _of_task(self, task: Resource) -> Iterator[Need]:
        containers = task.properties["ContainerDefinitions"]
        name = containers[0]["Name"]
        agent = self.processes[f"agent of {name}"]
        yield self._need(agent, "ecr:GetAuthorizationToken", "*")
        for container in containers:
            yield from self._of_image(agent, container["Image"])
            yield from self._of_logs(agent, container["LogConfiguration"]["Options"])
        for service in self.account.of_kind("AWS::ECS::Service"):
            proxy = service.properties.get("ServiceConnectConfiguration")
            if proxy and task.arn == f"arn:{service.properties['TaskDefinition']}":
                yield from self._of_logs(agent, proxy["LogConfiguration"]["Options"])
        if self.settings.tracing is not None:
            yield from self._of_traces(self.processes[name])

    def _of_traces(self, process: Process) -> Iterator[Need]:
        for action in ("xray:PutTraceSegments", "xray:PutTelemetryRecords"):
            yield self._need(process, action, "*")

    def _of_logs(self, process: Process, destination: Mapping[str, str]) -> Iterator[Need]:
        group = destination.get("LogGroup") or destination["awslogs-group"]
        arn = self.account.arn_of_name("AWS::Logs::LogGroup", group)
        for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
            yield self._need(process, action, arn.removesuffix("*") + "log-stream:a-stream")

    def _of_image(self, agent: Process, image: str) -> Iterator[Need]:
        host, _, rest = image.partition("/")
        owner, _, _, region = host.split(".")[:4]
        repository = rest.partition("@")[0].partition(":")[0]
        arn = f"arn:aws:ecr:{region}:{owner}:repository/{repository}"
        for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer"):
            yield self._need(agent, f"ecr:{action}", arn)

    def _need(
        self, process: Process, action: str, arn: str, context: Mapping[str, str] | None = None
    ) -> Need:
        found = {
            "aws:PrincipalAccount": ACCOUNT,
            "aws:RequestedRegion": self.account.region,
            "aws:SecureTransport": "true",
        }
        # The key is there where a resource has an owner. Models have none that AWS would name.
        owner = ACCOUNT if arn.startswith("arn:aws:s3:") else (*arn.split(":"), "", "", "", "")[4]
        if owner:
            found["aws:ResourceAccount"] = owner
        return Need(process, ApiRequest(process.role, action, arn, found | dict(context or {})))

    # -- whether they may --------------------------------------------------------------------------

    def refusal(self, need: Need) -> str | None:
        """Why a request would be refused. None: it would not."""
        role, request = self.account.by_arn(need.process.role), need.request
        decisions = self.identity(need), decide(self._policies_of(request.resource), request)
        if Decision.DENIED in decisions:
            return _said(need, role, "a policy denies it")
        if Decision.ALLOWED not in decisions:
            return _said(need, role, "no policy of the role allows it")
        for use in self.uses_of_key(need):
            if self.identity(use) is not Decision.ALLOWED:
                return _said(use, role, f"no policy allows it, which {request.action} needs")
            if decide(self._key_policy(use), use.request) is not Decision.ALLOWED:
                return _said(use, role, f"the key's policy does not, which {request.action} needs")
        for service in self.passed_endpoints(need):
            if not self.endpoint_allows(service, request):
                return _said(need, role, f"the VPC endpoint of {service} does not allow it")
        return None

    def identity(self, need: Need) -> Decision:
        """What the role's own policies say."""
        return decide(self.statements(need.process.role), need.request)

    def uses_of_key(self, need: Need) -> Iterator[Need]:
        """What the service does with the key of the data, in the caller's name."""
        service = need.request.action.partition(":")[0]
        for prefix, uses in _KEY_USES.items():
            if need.key is not None and need.request.action.startswith(prefix):
                via = f"{service}.{self.account.region}.amazonaws.com"
                for action in uses:
                    yield self._need(need.process, action, need.key, {"kms:ViaService": via})

    def statements(self, role_arn: str) -> list[Statement]:
        """The statements of a role's policies.

        Raises:
            AssertionError: it has managed policies, which are not in the template.
        """
        if role_arn in self.replaced:
            return self.replaced[role_arn]
        role = self.account.by_arn(role_arn)
        assert not role.properties.get("ManagedPolicyArns"), role.logical_id
        documents = [each["PolicyDocument"] for each in role.properties.get("Policies", ())]
        name = role_arn.rpartition("/")[2]
        documents += [
            policy.properties["PolicyDocument"]
            for policy in self.account.of_kind("AWS::IAM::Policy")
            if name in policy.properties["Roles"]
        ]
        return [statement for document in documents for statement in document["Statement"]]

    def unused(self, process: Process) -> Iterator[tuple[str, str]]:
        """Actions and resources that the role's policies allow, and that nothing needs."""
        needed = [need.request for need in self._all_needs() if need.process.role == process.role]
        for statement in self.statements(process.role):
            for action in as_list(statement["Action"]):
                for resource in as_list(statement["Resource"]):
                    one = {**statement, "Action": action, "Resource": resource}
                    if not any(applies(one, request) for request in needed):
                        yield action, resource

    def _all_needs(self) -> Iterator[Need]:
        for need in self.needs:
            yield need
            yield from self.uses_of_key(need)

    def endpoint_allows(self, service: str, request: ApiRequest) -> bool:
        """Whether a request passes an endpoint of the VPC, which must be there."""
        endpoint = self.endpoints.get(service)
        if endpoint is None:
            return False
        policy = endpoint.properties.get("PolicyDocument")
        # Without a policy of its own AWS gives it one that allows everything.
        return policy is None or decide(policy["Statement"], request) is Decision.ALLOWED

    @cached_property
    def endpoints(self) -> dict[str, Resource]:
        """The VPC's endpoints by the end of their service's name."""
        prefix = f"com.amazonaws.{self.account.region}."
        return {
            endpoint.properties["ServiceName"].removeprefix(prefix): endpoint
            for endpoint in self.account.of_kind("AWS::EC2::VPCEndpoint")
        }

    def passed_endpoints(self, need: Need) -> tuple[str, ...]:
        """The services of the VPC's endpoints that a request goes through."""
        if not need.process.in_vpc:
            return ()
        service = need.request.action.partition(":")[0]
        return _ENDPOINTS.get(service, (service,))

    def _policies_of(self, arn: str) -> list[Statement]:
        return [
            statement
            for policy in self.account.resources
            if policy.kind in _POLICIES_OF_RESOURCES
            for statement in policy.properties["PolicyDocument"]["Statement"]
            if any(matches(resource, arn) for resource in as_list(statement["Resource"]))
        ]

    def _key_policy(self, use: Need) -> list[Statement]:
        key = self.account.by_arn(use.request.resource)
        statements: list[Statement] = key.properties["KeyPolicy"]["Statement"]
        return statements


def _key_of(resource: Resource) -> str | None:
    for path in _KEY_PROPERTIES:
        found: Any = resource.properties
        for step in path:
            found = found[step] if isinstance(step, int) else found.get(step, {})
            if not found:
                break
        if found:
            return str(found)
    return None


def _said(need: Need, role: Resource, why: str) -> str:
    request = need.request
    return (
        f"{need.process.name} may not {request.action} {request.resource} "
        f"(role {role.logical_id}): {why}"
    )
