"""Turns failures of models on AWS into Evenflow's errors."""

from __future__ import annotations

import re
import struct

import aiohttp
import orjson
from botocore.eventstream import ParserError
from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NotConnected
from botocore.parsers import ResponseParserError

from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.fargate_handler.token_sources.openai_failures import told_in
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog, not_set_up
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    Overloaded,
    RateLimited,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)

NOT_READABLE = (
    ParserError,
    ResponseParserError,
    struct.error,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What the SDK and our code raise for an event that is not as the service's model says."""

_THROTTLED = frozenset(
    [
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "ServiceQuotaExceededException",
    ]
)
# These come with 401, 403 or 404, or with 400.
_REJECTED = frozenset(
    [
        "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature",
        "InvalidSignatureException", "MissingAuthenticationToken",
        "MissingAuthenticationTokenException", "OptInRequired", "ResourceNotFoundException",
        "UnrecognizedClientException",
        # SageMaker's own: the endpoint doesn't exist; a model's refusal is a ModelError.
        "ValidationError",
    ]
)  # fmt: skip
# Bedrock has one name for a message that is too long and for a model that doesn't exist.
_ABOUT_OUR_SETTINGS = re.compile(
    r"model ?id|on-demand throughput|the model that you provided|"
    r"maximum tokens you requested|(does|is)n.t support"
    r"|endpointName",
    re.IGNORECASE,
)
_LOGGED_CHARACTERS = 300
_UNAVAILABLE = frozenset(["ServiceUnavailableException", "ModelNotReadyException"])
# The connection failed, or something other than AWS answered.
_BROKEN = (
    HTTPClientError,
    NotConnected,
    aiohttp.ClientError,
    OSError,
    ResponseParserError,
    UnicodeDecodeError,
)


def failure_of(error: Exception, service: str, check: str, operator: OperatorLog) -> EvenflowError:
    """The error for an exception of the SDK.

    Args:
        service: the service's name, for the log.
        check: what to check when the service refuses us.
        operator: the log for that.
    """
    if isinstance(error, ClientError):
        return _answered(error, service, check, operator)
    if isinstance(error, _BROKEN):
        return UpstreamFailed(
            f"the connection to the model failed ({type(error).__name__}); what it had sent was "
            "kept",
            code="upstream_failed",
        )
    # No credentials, no region, or an endpoint that is not a URL: the call was never made.
    return _rejected(service, str(error), check, operator)


def unreadable_event() -> UpstreamFailed:
    """The error for a stream with an event that can't be read."""
    return UpstreamUnreadable(
        "the model sent an event that cannot be read; what came before was kept",
        code="upstream_failed",
    )


def _answered(error: ClientError, service: str, check: str, operator: OperatorLog) -> EvenflowError:
    answer = error.response
    told = answer.get("Error", {})
    name, message = str(told.get("Code", "")), str(told.get("Message", ""))
    # The same failure is `throttlingException` inside a stream.
    name = name[:1].upper() + name[1:]
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if name == "ModelError":
        status, message = answer.get("OriginalStatusCode"), _said(answer.get("OriginalMessage"))
    if (busy := _busy(name, status)) is not None:
        return busy
    if status in (401, 403, 404) or name in _REJECTED:
        return _rejected(service, f"{name}: {message}", check, operator)
    if name == "ValidationException":
        # A message about tools is for whoever sent the tools.
        if _ABOUT_OUR_SETTINGS.search(message) and "tool" not in message.lower():
            return _rejected(service, f"{name}: {message}", check, operator)
        return _refused(service, message, operator)
    if name == "ModelError" and status in (400, 413, 422):
        return _refused(service, message, operator)
    return UpstreamFailed(
        f"the model failed ({name or status}); what it had sent was kept", code="upstream_failed"
    )


def _busy(name: str, status: object) -> UpstreamAnswered | None:
    if status == 429 or name in _THROTTLED:
        return UpstreamAnswered(
            "the model has too much to do at the moment; what it had sent was kept, ask again in "
            "a few seconds",
            code="upstream_throttled",
            status=429,
            type=RateLimited.type,
        )
    if name in _UNAVAILABLE or status == 503:
        return UpstreamAnswered(
            "the model is not available at the moment; what it had sent was kept, ask again in a "
            "few seconds",
            code="upstream_overloaded",
            status=503,
            type=Overloaded.type,
        )
    return None


def _refused(service: str, message: str, operator: OperatorLog) -> ModelRefused:
    operator.warning(f"{service} refused a message", message)
    return refusal(message, status=400)


def _rejected(service: str, told: str, check: str, operator: OperatorLog) -> UpstreamRejected:
    # It is for the operator, not for users. The lines after the first may have signed headers.
    line = told.partition("\n")[0][:_LOGGED_CHARACTERS]
    operator.error(f"{service} refuses us ({line}): check {check}")
    return not_set_up()


def _said(original: object) -> str:
    """The text of a container's error: of an OpenAI-style error, or any text."""
    try:
        return told_in(orjson.loads(str(original))["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(original or "")
