"""Answers errors that no endpoint has handled, in the shape of the API that was called."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Container
from typing import cast

from aiohttp import web

from evenflow.fargate_handler.gateway.http.answers import (
    ERROR_CODE,
    RequestHandler,
    error_answer,
    json_answer,
    retry_headers,
)
from evenflow.fargate_handler.gateway.http.verified_request import CLIENT, TENANT
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.base.errors import EvenflowError, InvalidRequest, RequestTimeout
from evenflow.stream_core.http.http_contract import (
    allow_header,
    error_headers,
    internal_error,
    method_not_allowed,
    path_not_found,
)
from evenflow.stream_core.http.routes import protocol_at
from evenflow.stream_core.protocols.anthropic.encoder import error_object, status_of
from evenflow.stream_core.records.connection_records import RejectionRecord

ANTHROPIC_REQUEST_ID = "request-id"
"""The header in which Anthropic's clients look for the request's id."""

_logger = logging.getLogger(__name__)


def error_in_shape(request: web.Request, error: EvenflowError) -> web.Response:
    """The answer for an error, in the shape of the API that was called."""
    return error_answer_at(request.path, error, request.headers)


def error_answer_at(path: str, error: EvenflowError, headers: Container[str] = ()) -> web.Response:
    """The answer for an error at a path.

    Args:
        headers: the names of the request's headers.
    """
    if protocol_at(path, headers).error_shape == "anthropic":
        return anthropic_error_answer(error)
    return error_answer(error)


def anthropic_error_answer(error: EvenflowError, request_id: str = "") -> web.Response:
    """The answer for an error in the shape of Anthropic's API.

    Args:
        request_id: empty where no request was accepted that has one.
    """
    request_id = request_id or f"req_{secrets.token_hex(12)}"
    headers = error_headers(error) | retry_headers(error) | {ANTHROPIC_REQUEST_ID: request_id}
    if error.retry_after_ms is not None:
        headers["retry-after-ms"] = str(error.retry_after_ms)
    answer = json_answer(error_object(error, request_id), status_of(error), headers)
    answer[ERROR_CODE] = error.code
    if isinstance(error, RequestTimeout):
        answer.force_close()
    return answer


@web.middleware
async def errors_in_shape(request: web.Request, handler: RequestHandler) -> web.StreamResponse:
    """Turn every error, ours or aiohttp's, into an answer, and log it."""
    answer = await _answered(request, handler)
    code = answer.get(ERROR_CODE)
    if code is not None:
        resource = request.match_info.route.resource
        route = "of no path" if resource is None else resource.canonical
        client = request.get(CLIENT)
        log_event(
            RejectionRecord(
                code=code,
                status=answer.status,
                transport="http",
                what=f"{request.method} {route}",
                tenant=request.get(TENANT),
                unnamed_proxy=client.unnamed_proxy or None if client else None,
            )
        )
    return answer


async def _answered(request: web.Request, handler: RequestHandler) -> web.StreamResponse:
    try:
        return await handler(request)
    except EvenflowError as error:
        return error_in_shape(request, error)
    except web.HTTPException as refused:
        if refused.status < 400:
            raise
        return _http_error(request, refused)
    except web.RequestPayloadError:
        # The body doesn't match its headers.
        return _http_error(
            request, web.HTTPBadRequest(reason="the body cannot be decoded; nothing was accepted")
        )
    except Exception:
        _logger.exception("%s %s failed", request.method, request.path)
        return error_in_shape(request, internal_error())


async def expectation(request: web.Request) -> web.StreamResponse | None:
    """Answer the header `Expect`: with 100, or an error."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        return _http_error(request, web.HTTPExpectationFailed())
    if request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return None


async def answer_in_shape(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], request: web.BaseRequest
) -> web.StreamResponse:
    """Answer a request. aiohttp rejects `Expect` at unknown paths before the middlewares."""
    try:
        return await handler(request)
    except web.HTTPExpectationFailed as rejection:
        return _http_error(cast("web.Request", request), rejection)


def _http_error(request: web.Request, refused: web.HTTPException) -> web.Response:
    if isinstance(refused, web.HTTPNotFound):
        return error_in_shape(request, path_not_found(request.path))
    if isinstance(refused, web.HTTPMethodNotAllowed):
        answer = error_in_shape(request, method_not_allowed(request.method, request.path))
        answer.headers.update(allow_header(refused.allowed_methods))
        return answer
    answer = error_in_shape(request, InvalidRequest(refused.reason, code="bad_request"))
    answer.set_status(refused.status)
    return answer
