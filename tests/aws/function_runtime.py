"""A Lambda function's execution environments: processes that take events from Lambda's Runtime API
and call the real handler.

`python -m tests.aws.function_runtime`, with the function's variables and AWS_LAMBDA_RUNTIME_API in
its environment. As in Lambda, an environment is a process of its own that handles one event at a
time. Unlike there, the function is loaded once and all environments are forked from that, since so
many cold starts would take this machine half a minute.
"""

from __future__ import annotations

import http.client
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

import psutil

from tests.aws_calls import record_calls

NEXT = "/2018-06-01/runtime/invocation/next"
INVOCATION = "/2018-06-01/runtime/invocation/"
INIT_ERROR = "/2018-06-01/runtime/init/error"

Handler = Callable[[Any, "LambdaContext"], Any]


@dataclass(frozen=True)
class LambdaContext:
    """What a handler gets beside the event."""

    aws_request_id: str
    invoked_function_arn: str
    deadline_ms: int
    function_name: str
    function_version: str
    memory_limit_in_mb: str
    log_group_name: str
    log_stream_name: str
    identity: None = None
    client_context: None = None

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda would end the invocation."""
        return max(0, self.deadline_ms - int(time.time() * 1000))


class SharedSocketError(Exception):
    """Loading the function opened a connection: environments would share it and mix their
    answers up.
    """


def main() -> int:
    """Load the function, fork the environments, and wait until told to end."""
    record_calls()
    api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        handler = _load(os.environ["_HANDLER"])
        if connections := psutil.Process().net_connections():
            raise SharedSocketError(str(connections))
    except Exception as error:  # whatever the function raises is the caller's to know
        _post(api, INIT_ERROR, _described(error))
        raise
    children = [_fork(api, handler) for _ in range(int(os.environ["FUNCTION_ENVIRONMENTS"]))]

    def end(_number: int, _frame: FrameType | None) -> None:
        for child in children:
            os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for child in children:
        os.waitpid(child, 0)
    return 0


def _fork(api: http.client.HTTPConnection, handler: Handler) -> int:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _environment(api, handler)
    return child


def _environment(api: http.client.HTTPConnection, handler: Handler) -> NoReturn:
    """Take events until the Runtime API is gone."""
    try:
        while True:
            _handle_next(api, handler)
    except (OSError, http.client.HTTPException):
        os._exit(0)


def _load(name: str) -> Handler:
    module, _, function = name.rpartition(".")
    handler: Handler = getattr(importlib.import_module(module), function)
    return handler


def _handle_next(api: http.client.HTTPConnection, handler: Handler) -> None:
    api.request("GET", NEXT)
    answer = api.getresponse()
    event = json.loads(answer.read())
    context = _context(answer.headers)
    path = f"{INVOCATION}{context.aws_request_id}"
    try:
        body = json.dumps(handler(event, context)).encode()
    except Exception as error:  # whatever the function raises is the caller's to know
        traceback.print_exc()
        _post(api, f"{path}/error", _described(error))
    else:
        _post(api, f"{path}/response", body)


def _context(headers: http.client.HTTPMessage) -> LambdaContext:
    return LambdaContext(
        aws_request_id=headers["Lambda-Runtime-Aws-Request-Id"],
        invoked_function_arn=headers["Lambda-Runtime-Invoked-Function-Arn"],
        deadline_ms=int(headers["Lambda-Runtime-Deadline-Ms"]),
        function_name=os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        function_version=os.environ["AWS_LAMBDA_FUNCTION_VERSION"],
        memory_limit_in_mb=os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
        log_group_name=os.environ["AWS_LAMBDA_LOG_GROUP_NAME"],
        log_stream_name=os.environ["AWS_LAMBDA_LOG_STREAM_NAME"],
    )


def _described(error: BaseException) -> bytes:
    described = {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }
    return json.dumps(described).encode()


def _post(api: http.client.HTTPConnection, path: str, body: bytes) -> None:
    api.request("POST", path, body, {"Content-Type": "application/json"})
    api.getresponse().read()


if __name__ == "__main__":
    sys.exit(main())
