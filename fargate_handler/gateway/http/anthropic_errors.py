"""Errors in the shape of Anthropic's API."""

from __future__ import annotations

import secrets
from collections.abc import Container

from aiohttp import web

from evenflow.fargate_handler.gateway.http.answers import ERROR_CODE, json_answer, retry_headers
from evenflow.stream_core.base.errors import EvenflowError, RequestTimeout
from evenflow.stream_core.http.http_contract import error_headers
from evenflow.stream_core.http.routes import ANTHROPIC_MESSAGES, LIST_MODELS
from evenflow.stream_core.protocols.anthropic.encoder import error_object, status_of

REQUEST_ID = "request-id"
VERSION_HEADER = "anthropic-version"


def is_of_anthropic(path: str, headers: Container[str] = ()) -> bool:
    """Whether a request is for Anthropic's API. At the models' path, which OpenAI's API has too,
    a header decides.
    """
    path = f"{path}/"
    if path.startswith(f"{LIST_MODELS.path}/"):
        return VERSION_HEADER in headers
    return path.startswith(f"{ANTHROPIC_MESSAGES.path}/")


def refusal(error: EvenflowError, request_id: str = "") -> web.Response:
    """The answer for an error, with the headers that this API's clients read.

    Args:
        request_id: empty: a new one. Only accepted requests have one.
    """
    request_id = request_id or f"req_{secrets.token_hex(12)}"
    headers = error_headers(error) | retry_headers(error) | {REQUEST_ID: request_id}
    if error.retry_after_ms is not None:
        headers["retry-after-ms"] = str(error.retry_after_ms)
    answer = json_answer(error_object(error, request_id), status_of(error), headers)
    answer[ERROR_CODE] = error.code
    if isinstance(error, RequestTimeout):
        answer.force_close()
    return answer
