from __future__ import annotations

import logging

import aiohttp
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    EventStreamError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
)
from botocore.parsers import ResponseParserError

from evenflow.fargate_handler.token_sources.aws_client import failure_of
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
)


def answered(
    name: str, status: int | None, message: str = "of AWS' own", **members: object
) -> ClientError:
    """What the SDK raises for an error answer, or with no status for an exception inside a
    stream.
    """
    answer = {"Error": {"Code": name, "Message": message}, **members}
    if status is None:
        return EventStreamError(answer, "ConverseStream")
    return ClientError(answer | {"ResponseMetadata": {"HTTPStatusCode": status}}, "ConverseStream")


def failure(error: Exception) -> EvenflowError:
    return failure_of(error, "a-service", "the settings", OperatorLog(logging.getLogger(__name__)))


THROTTLED = [
    answered("ThrottlingException", 429),
    answered("throttlingException", None),
    answered("ModelNotReadyException", 429),
    answered("ServiceQuotaExceededException", 400),
    answered("429", 429),
    answered("ModelError", 424, OriginalStatusCode=429, OriginalMessage="too many"),
]
UNAVAILABLE = [
    answered("ServiceUnavailableException", 503),
    answered("serviceUnavailableException", None),
    answered("ModelError", 424, OriginalStatusCode=503, OriginalMessage="loading"),
]
REJECTED = [
    answered("AccessDeniedException", 403),
    answered("UnrecognizedClientException", 403),
    answered("InvalidSignatureException", 403),
    answered("ExpiredTokenException", 403),
    answered("ExpiredTokenException", 400),
    answered("ResourceNotFoundException", 404),
    answered("404", 404),
    answered("ValidationError", 400, "Endpoint x of account 111111111111 not found."),
    answered("ValidationException", 400, "The provided model identifier is invalid."),
    answered(
        "ValidationException",
        400,
        "Invocation of model ID x with on-demand throughput isn’t supported. Retry …",
    ),
    answered(
        "ValidationException", 400, "The provided model doesn't support on-demand throughput."
    ),
    answered(
        "ValidationException",
        400,
        "This action doesn't support the model that you provided. Try again with …",
    ),
    answered(
        "ValidationException",
        400,
        "The maximum tokens you requested exceeds the model limit of 4096.",
    ),
    answered(
        "ValidationException",
        400,
        "1 validation error detected: Value '' at 'modelId' failed to satisfy …",
    ),
    answered("ModelError", 424, OriginalStatusCode=404, OriginalMessage="no such model"),
    NoCredentialsError(),
    NoRegionError(),
    CredentialRetrievalError(provider="container-role", error_msg="no answer"),
    ParamValidationError(report="modelId"),
    ValueError("Invalid endpoint: nonsense"),
]
REFUSED = [
    answered("ValidationException", 400, "Input is too long for requested model."),
    answered("validationException", None, "Input is too long for requested model."),
    answered(
        "ModelError",
        424,
        OriginalStatusCode=400,
        OriginalMessage='{"error": {"message": "too long"}}',
    ),
    answered("ModelError", 424, OriginalStatusCode=422, OriginalMessage="unprocessable"),
]
FAILED = [
    answered("InternalServerException", 500),
    answered("internalServerException", None),
    answered("ModelTimeoutException", 408),
    answered("ModelErrorException", 424),
    answered("modelStreamErrorException", None),
    answered("ModelStreamError", None),
    answered("InternalStreamFailure", None),
    answered("ModelError", 424, OriginalStatusCode=500, OriginalMessage="a traceback"),
    answered("ModelError", 424),
    answered("", None),
    answered("502", 502),
    EndpointConnectionError(endpoint_url="http://x"),
    ConnectTimeoutError(endpoint_url="http://x"),
    ConnectionClosedError(endpoint_url="http://x"),
    aiohttp.ClientPayloadError("cut"),
    ConnectionResetError(),
    TimeoutError(),
    ResponseParserError("no JSON"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"),
]


@pytest.mark.parametrize("error", THROTTLED, ids=str)
def test_throttling_is_told_without_a_time_since_the_service_says_none(error: Exception) -> None:
    met = failure(error)
    assert type(met) is UpstreamAnswered
    assert (met.status, met.type) == (429, "rate_limit_error")
    assert (met.code, met.retry_after_ms) == ("upstream_throttled", None)


@pytest.mark.parametrize("error", UNAVAILABLE, ids=str)
def test_a_model_that_is_not_available_is_told_as_that(error: Exception) -> None:
    met = failure(error)
    assert type(met) is UpstreamAnswered
    assert (met.status, met.type, met.code) == (503, "overloaded_error", "upstream_overloaded")


@pytest.mark.parametrize("error", REJECTED, ids=str)
def test_what_is_ours_to_mend_is_logged_and_the_user_is_told_nothing_of_it(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    met = failure(error)
    assert type(met) is UpstreamRejected
    assert met.code == "model_not_set_up"
    assert met.message.startswith("the model is not set up on this server")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.message.startswith("a-service refuses us (")
    assert record.message.endswith("check the settings")


@pytest.mark.parametrize("error", REFUSED, ids=str)
def test_a_message_that_the_model_will_not_take_is_refused(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    met = failure(error)
    assert type(met) is ModelRefused
    assert (met.status, met.type) == (400, "invalid_request_error")
    assert met.code == ("context_length_exceeded" if "too long" in caplog.text else "model_refused")
    assert met.message.removeprefix("the model refused the message: ") == (
        "it is too long for the model; shorten it (This model's maximum context length is exceeded)"
        if "too long" in caplog.text
        else "the server's log says why; change it and send it again"
    )
    assert any(words in caplog.text for words in ("too long", "unprocessable"))


@pytest.mark.parametrize("error", FAILED, ids=lambda error: repr(error)[:60])
def test_everything_else_is_worth_another_attempt(error: Exception) -> None:
    met = failure(error)
    assert type(met) is UpstreamFailed
    assert met.code == "upstream_failed"
    assert "kept" in met.message
    assert "AWS' own" not in met.message
    assert "traceback" not in met.message


def test_the_signed_headers_of_a_wrong_signature_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failure(
        answered(
            "InvalidSignatureException", 403, "It does not match.\n\nx-amz-security-token:the-token"
        )
    )
    assert "It does not match." in caplog.text
    assert "the-token" not in caplog.text


def test_a_refusal_tells_no_arn_and_no_account(caplog: pytest.LogCaptureFixture) -> None:
    told = (
        "Malformed input for arn:aws:bedrock:us-east-1:123456789012:inference-profile/x.y-1:0 of "
        "123456789012, 4 tokens"
    )
    refused = failure(answered("ValidationException", 400, told))
    assert isinstance(refused, ModelRefused)
    assert "123456789012" not in refused.message
    assert "Malformed input" not in refused.message
    assert "Malformed input" in caplog.text
