"""Resources of an environment that no stack owns, since they outlived their stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION

LOG_GROUP, SECRET = "AWS::Logs::LogGroup", "AWS::SecretsManager::Secret"
BUCKET, KEY = "AWS::S3::Bucket", "AWS::KMS::Key"
QUEUE, TABLE = "AWS::SQS::Queue", "AWS::DynamoDB::Table"
# By the service in the ARN. Log groups and secrets are looked up by their names.
_KINDS = {"dynamodb": TABLE, "kms": KEY, "s3": BUCKET, "sqs": QUEUE}
# Log groups that Lambda and SageMaker make themselves.
_MADE_BY_SERVICES = ("/aws/lambda/", "/aws/sagemaker/Endpoints/")
_GONE = ("DELETE_COMPLETE", "DELETE_SKIPPED")
_LOGICAL_ID, _STACK = "aws:cloudformation:logical-id", "aws:cloudformation:stack-name"


@dataclass(frozen=True, slots=True)
class KeptResource:
    """A resource that outlived its stack.

    Args:
        kind: its type in CloudFormation.
        name: a secret's ARN, a key's id, else the name.
        stack, logical_id: the stack that made it, and its id there. "": AWS doesn't say.
        is_scheduled: whether it is a secret that is scheduled for deletion. Its name is taken.
        region: where it is. None: in the environment's region.
    """

    kind: str
    name: str
    stack: str = ""
    logical_id: str = ""
    is_scheduled: bool = False
    region: str | None = None

    @property
    def takes_name(self) -> bool:
        """Whether it has a name that the stacks need."""
        if self.kind == LOG_GROUP:
            return not self.name.startswith(_MADE_BY_SERVICES)
        return self.kind in (QUEUE, SECRET, TABLE)

    @property
    def shown_name(self) -> str:
        """The name for people: a secret's without the six characters that its ARN ends with."""
        return self.name.split(":")[-1][:-7] if self.kind == SECRET else self.name


def find_kept(account: AwsAccount, settings: EnvironmentSettings) -> list[KeptResource]:
    """All resources of the environment that no stack owns, by kind and name.

    Raises:
        AwsCallError: AWS didn't answer a call.
    """
    stacks = _live_stacks(account, f"{settings.prefix}-")
    resources = {
        (resource.kind, resource.name): resource
        for group in (
            _tagged(account, settings),
            _secrets(account, settings),
            _log_groups(account, settings, stacks),
            _blocked_requests(settings),
        )
        for resource in group
    }
    # An EvenflowService of the same name is in a stack that is called otherwise.
    stacks = sorted({*stacks, *(resource.stack for resource in resources.values())} - {""})
    owned = {physical_id for stack in stacks for physical_id in _physical_ids(account, stack)}
    return [
        resource
        for _, resource in sorted(resources.items())
        if not {resource.name, resource.shown_name} & owned
        # These were found by name, so they may belong to a stack with another name.
        and not (resource.kind in (LOG_GROUP, SECRET) and _has_stack(account, resource))
    ]


def _has_stack(account: AwsAccount, resource: KeptResource) -> bool:
    physical_id = resource.name
    if resource.region is not None:
        account = AwsAccount(resource.region)
    try:
        answer = account.call(
            "cloudformation", "describe_stack_resources", PhysicalResourceId=physical_id
        )
    except AwsCallError as error:
        if error.code != "ValidationError":  # there is no such stack
            raise
        return False
    return any(
        each.get("PhysicalResourceId") == physical_id and each["ResourceStatus"] not in _GONE
        for each in answer["StackResources"]
    )


def _live_stacks(account: AwsAccount, prefix: str) -> list[str]:
    return [
        stack["StackName"]
        for page in account.pages("cloudformation", "list_stacks")
        for stack in page["StackSummaries"]
        # A stack that only has a change set owns nothing yet.
        if stack["StackName"].startswith(prefix)
        and stack["StackStatus"] not in ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS")
    ]


def _physical_ids(account: AwsAccount, stack: str) -> Iterator[str]:
    """What a stack owns. Nothing, where it has been deleted."""
    try:
        pages = list(account.pages("cloudformation", "list_stack_resources", StackName=stack))
    except AwsCallError as error:
        if error.code != "ValidationError":  # there is no such stack
            raise
        return
    for page in pages:
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceStatus"] not in _GONE:
                physical_id: str = resource.get("PhysicalResourceId", "")
                # A queue's id is its URL.
                is_queue = resource["ResourceType"] == QUEUE
                yield physical_id.rpartition("/")[2] if is_queue else physical_id


def _tagged(account: AwsAccount, settings: EnvironmentSettings) -> Iterator[KeptResource]:
    tags = {"installation": settings.installation, "environment": settings.name}
    for page in account.pages(
        "resourcegroupstaggingapi",
        "get_resources",
        TagFilters=[{"Key": key, "Values": [value]} for key, value in tags.items()],
        ResourceTypeFilters=list(_KINDS),
    ):
        for mapping in page["ResourceTagMappingList"]:
            service, resource = mapping["ResourceARN"].split(":", 5)[2::3]
            name = resource.rpartition("/")[2]
            if service == "kms" and _is_ending(account, name):
                continue
            yield _of_tags(_KINDS[service], name, mapping["Tags"])


def _is_ending(account: AwsAccount, key: str) -> bool:
    state: str = account.call("kms", "describe_key", KeyId=key)["KeyMetadata"]["KeyState"]
    return state == "PendingDeletion"


def _secrets(account: AwsAccount, settings: EnvironmentSettings) -> Iterator[KeptResource]:
    for page in account.pages(
        "secretsmanager",
        "list_secrets",
        IncludePlannedDeletion=True,
        Filters=[{"Key": "name", "Values": [f"{settings.prefix}-"]}],
    ):
        for secret in page["SecretList"]:
            tags, is_scheduled = secret.get("Tags", []), "DeletedDate" in secret
            yield _of_tags(SECRET, secret["ARN"], tags, is_scheduled=is_scheduled)


def _log_groups(
    account: AwsAccount, settings: EnvironmentSettings, stacks: list[str]
) -> Iterator[KeptResource]:
    of_aws = (f"{path}{settings.prefix}-" for path in _MADE_BY_SERVICES)
    of_live_stacks = tuple(f"/aws/lambda/{stack}-" for stack in stacks)
    for prefix in (f"/{settings.log_path}/", f"/aws/vendedlogs/{settings.log_path}/", *of_aws):
        for page in account.pages("logs", "describe_log_groups", logGroupNamePrefix=prefix):
            for group in page["logGroups"]:
                if not group["logGroupName"].startswith(of_live_stacks):
                    yield KeptResource(LOG_GROUP, group["logGroupName"])


def _blocked_requests(settings: EnvironmentSettings) -> Iterator[KeptResource]:
    """The log of the web ACL, which is where CloudFront's web ACLs are."""
    name = f"aws-waf-logs-{settings.global_prefix}"
    pages = AwsAccount(GLOBAL_REGION).pages("logs", "describe_log_groups", logGroupNamePrefix=name)
    if any(group["logGroupName"] == name for page in pages for group in page["logGroups"]):
        yield KeptResource(LOG_GROUP, name, region=GLOBAL_REGION)


def _of_tags(
    kind: str, name: str, tags: list[dict[str, str]], *, is_scheduled: bool = False
) -> KeptResource:
    values = {tag["Key"]: tag["Value"] for tag in tags}
    stack, logical_id = values.get(_STACK, ""), values.get(_LOGICAL_ID, "")
    return KeptResource(kind, name, stack, logical_id, is_scheduled)
