"""Which calls of AWS our code makes in tests, by which process, and on what.

Tests of the templates evaluate the list `called.json` against the roles of these processes. A call
that is not on it fails the run that makes it, and a row that no test of tests/integration makes
fails a run of them all. `called.json` is the list: add rows there, or take them out.

`python -m tests.aws_calls evenflow.fargate_handler …` runs a module whose calls are recorded.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

LIST = Path(__file__).with_name("called.json")
RECORDING = "AWS_CALLS_RECORDED_IN"
"""The variable with the file that processes write their calls to, one a line."""


class Called(NamedTuple):
    """A call, as IAM sees it.

    Args:
        process: `handler`, `model` for whichever process calls the model, or a function's name.
        action: IAM's name for it.
        resource: the variable by which the process knows it, and what of it.
    """

    process: str
    action: str
    resource: str


OPERATOR = "operator"
"""A person's command, with that person's credentials."""
# The first that any module on the stack begins with.
_PROCESSES = (
    ("evenflow.stream_aws.redriv", OPERATOR),
    ("evenflow.opened_store", OPERATOR),
    ("evenflow.tenants", OPERATOR),
    ("evenflow.usage", OPERATOR),
    *(
        (f"evenflow.functions.{name}.", name)
        for name in (
            "canary",
            "poll_response",
            "rotate_signing_keys",
            "session_init",
            "usage_file",
        )
    ),
    ("evenflow.fargate_handler.token_sources.bedrock", "model"),
    ("evenflow.fargate_handler.token_sources.sagemaker", "model"),
)
# What only commands do with a store.
_OF_OPERATORS = {("evenflow.stream_aws.dynamodb_tenant_store", "_change")}
_SDK = ("aiobotocore", "boto3", "botocore", __name__)


def called() -> set[Called]:
    """The list."""
    return {Called(*row) for row in json.loads(LIST.read_text("utf-8"))}


# -- what a call needs -----------------------------------------------------------------------------

_PARTS_OF_TRANSACTIONS = {
    "ConditionCheck": "ConditionCheckItem",
    "Delete": "DeleteItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
}
_OBJECT_ACTIONS = {
    "CompleteMultipartUpload": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
}
_RENAMED = {
    "ConverseStream": "InvokeModelWithResponseStream",  # which alone authorizes it
    "ListObjectsV2": "ListBucket",
}
_TABLE = re.compile("sessions|ledger|responses|tenants")
_SECRETS = {
    "edge": "EVENFLOW_EDGE_KEYS_SECRET",
    "signing": "EVENFLOW_TOKEN_KEYS_SECRET",
    "tenant": "EVENFLOW_TENANT_KEYS_SECRET",
    "token": "EVENFLOW_TOKEN_KEYS_SECRET",
}
Request = Mapping[str, Any]
Needed = Iterator[tuple[str, str]]


def needed(service: str, operation: str, request: Request) -> Needed:
    """The actions that a call of the SDK needs, each with its resource."""
    yield from _NEEDED[service](operation, request)


def needed_operations(operation: str) -> Sequence[str]:
    """The names, without the service's, of an operation's actions. It needs at least one."""
    if operation == "TransactWriteItems":
        return [*_PARTS_OF_TRANSACTIONS.values()]
    renamed = {**_OBJECT_ACTIONS, **_RENAMED}
    return [renamed.get(operation, operation)]


def _of_dynamodb(operation: str, request: Request) -> Needed:
    if operation == "TransactWriteItems":
        for part in request["TransactItems"]:
            ((kind, item),) = part.items()
            yield f"dynamodb:{_PARTS_OF_TRANSACTIONS[kind]}", _table(item["TableName"])
    elif operation in ("BatchGetItem", "BatchWriteItem"):
        for name in request["RequestItems"]:
            yield f"dynamodb:{operation}", _table(name)
    else:
        index = request.get("IndexName")
        resource = _table(request["TableName"]) + (f" index {index}" if index else "")
        yield f"dynamodb:{operation}", resource


def _table(name: str) -> str:
    found = _TABLE.search(name)
    return f"EVENFLOW_{found[0].upper()}_TABLE" if found else name


def _of_s3(operation: str, request: Request) -> Needed:
    if operation == "ListObjectsV2":
        yield (
            f"s3:{_RENAMED[operation]}",
            f"{_bucket(request['Prefix'])} prefix {request['Prefix']}",
        )
    else:
        prefix = request["Key"].partition("/")[0]
        action = _OBJECT_ACTIONS.get(operation, operation)
        yield f"s3:{action}", f"{_bucket(prefix)} object {prefix}/"


def _bucket(prefix: str) -> str:
    return f"EVENFLOW_{prefix.strip('/').upper()}_BUCKET"


def _of_secrets(operation: str, request: Request) -> Needed:
    name = request["SecretId"]
    found = (variable for part, variable in _SECRETS.items() if part in name)
    yield f"secretsmanager:{operation}", next(found, name)


def _of_bedrock(operation: str, request: Request) -> Needed:
    if operation == "ApplyGuardrail":
        yield "bedrock:ApplyGuardrail", "EVENFLOW_FILTER_GUARDRAIL"
        return
    yield f"bedrock:{_RENAMED.get(operation, operation)}", "EVENFLOW_MODEL_NAME"
    if "guardrailConfig" in request:
        yield "bedrock:ApplyGuardrail", "EVENFLOW_BEDROCK_GUARDRAIL"


def _of_sagemaker(operation: str, _request: Request) -> Needed:
    # The API's reference needs InvokeEndpoint for streams, too.
    for action in {"InvokeEndpoint", operation}:
        yield f"sagemaker:{action}", "EVENFLOW_MODEL_NAME"


_NEEDED: Mapping[str, Callable[[str, Request], Needed]] = {
    "bedrock-runtime": _of_bedrock,
    "cloudwatch": lambda operation, request: iter(
        [(f"cloudwatch:{operation}", f"namespace {request['Namespace']}")]
    ),
    "dynamodb": _of_dynamodb,
    "ecs": lambda operation, request: iter(
        [(f"ecs:{operation}", "service" if "services" in request else "task")]
    ),
    "s3": _of_s3,
    "sagemaker-runtime": _of_sagemaker,
    "secretsmanager": _of_secrets,
    "sqs": lambda operation, _: iter([(f"sqs:{operation}", "EVENFLOW_DEAD_LETTERS_QUEUE")]),
}


# -- recording -------------------------------------------------------------------------------------


def record_calls() -> None:
    """Write each distinct call of our code to the file of RECORDING, from now on."""
    if RECORDING not in os.environ:
        return
    # Here, since most tests call no AWS.
    from aiobotocore.client import AioBaseClient
    from botocore.client import BaseClient

    recorder = _Recorder(Path(os.environ[RECORDING]))
    for client in (BaseClient, AioBaseClient):
        _record_calls_of(client, recorder)


class _Recorder:
    """Writes what it has not seen yet. Each line is one write, since processes share the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[Called] = set()

    def record(self, call: Called) -> None:
        if call not in self._known:
            self._known.add(call)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(call) + "\n")


def _record_calls_of(client: Any, recorder: _Recorder) -> None:
    make_call = client._make_api_call

    def make_recorded_call(self: Any, operation: str, request: Request) -> Any:
        if (process := _calling_process()) is not None:
            service = self.meta.service_model.service_name
            for action, resource in needed(service, operation, request):
                recorder.record(Called(process, action, resource))
        return make_call(self, operation, request)

    client._make_api_call = make_recorded_call


def _calling_process() -> str | None:
    """The process that makes this call. None: a test or a deployment makes it."""
    frames = list(_frames())
    caller = frames[0][0] if frames else ""
    if not caller.startswith("evenflow.") or caller.startswith("evenflow.infra."):
        return None
    if not _OF_OPERATORS.isdisjoint(frames):
        return OPERATOR
    modules = [module for module, _ in frames]
    for prefix, process in _PROCESSES:
        if any(module.startswith(prefix) for module in modules):
            return process
    return "handler"


def _frames() -> Iterator[tuple[str, str]]:
    """Module and function of what has led here, from the SDK's caller on."""
    frame: FrameType | None = sys._getframe(1)
    outside = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        outside = outside or not module.startswith(_SDK)
        if outside:
            yield module, frame.f_code.co_name
        frame = frame.f_back


def differences(path: Path, *, is_whole_suite: bool) -> list[str]:
    """How the calls that were written to a file differ from the list.

    Args:
        is_whole_suite: whether all tests have run that the list's rows are made by.
    """
    lines = path.read_text("utf-8").splitlines()
    found, listed = {Called(*json.loads(line)) for line in lines}, called()
    unused = listed - found if is_whole_suite else set[Called]()
    return [
        *(f"this call is not on the list: {json.dumps(call)}" for call in sorted(found - listed)),
        *(f"no test makes this call any more: {json.dumps(call)}" for call in sorted(unused)),
    ]


def main() -> None:
    """Run a module as its own program, with its calls recorded."""
    record_calls()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
