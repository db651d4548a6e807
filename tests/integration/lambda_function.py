"""A Lambda function in this process: its real handler, loaded anew with its variables, called
with what Lambda gives it.
"""

from __future__ import annotations

import importlib
import json
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from multidict import CIMultiDict

from evenflow.stream_core.http.routes import EDGE_KEY_HEADER
from tests.integration.chat_client import HttpAnswer
from tests.integration.http_api_event import EDGE_KEY, http_api_event


@dataclass(frozen=True)
class InvocationContext:
    """What Lambda passes beside the event."""

    function_name: str
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 512
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def invoked_function_arn(self) -> str:
        """The function's ARN."""
        return f"arn:aws:lambda:us-east-1:111111111111:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the time-out."""
        return 10_000


class LambdaFunction:
    """One execution environment of `evenflow.functions.<name>.handler.handler`.

    Args:
        environment: the variables under which it is loaded, beside this process' own.
    """

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self._name = name
        module = f"evenflow.functions.{name}.handler"
        sys.modules.pop(module, None)
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in environment.items():
                patch.setenv(variable, value)
            self.module: ModuleType = importlib.import_module(module)

    def invoke(self, event: object) -> Any:
        """What the handler returns; both ways must be JSON."""
        answer = self.module.handler(json.loads(json.dumps(event)), InvocationContext(self._name))
        return json.loads(json.dumps(answer))

    def call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """One HTTP call, as it comes through CloudFront and the HTTP API."""
        through_cloudfront = {EDGE_KEY_HEADER: EDGE_KEY, **(headers or {})}
        answer = self.invoke(http_api_event(method, path, body, through_cloudfront))
        assert answer.keys() == {"statusCode", "headers", "body", "isBase64Encoded"}
        assert answer["isBase64Encoded"] is False
        return HttpAnswer(
            answer["statusCode"], CIMultiDict(answer["headers"]), answer["body"].encode()
        )
