"""What a server's statuses become, and what of them reaches the client."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from evenflow.fargate_handler.token_sources.error_objects import error_in
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    UpstreamAnswered,
    UpstreamExplained,
    UpstreamRejected,
    is_over_quota,
    is_throttled,
    is_upstreams_fault,
    is_worth_repeating,
)


def answered(status: int, body: object = None, **headers: str) -> EvenflowError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Failures().answered(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, data
    )


# What a server's words may have in them by accident.
LEAK = "could not connect to postgres://app:hunter2@db.internal:5432/prod, key sk-proj-abcdef123"
LEAKED = ("hunter2", "db.internal", "abcdef123", "postgres")


def said(**error: object) -> dict[str, object]:
    return {"error": {"message": "Their words."} | error}


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("code", ["context_length_exceeded", "content_policy_violation"])
def test_a_refusal_keeps_its_status_its_code_and_its_parameter(status: int, code: str) -> None:
    error = answered(status, said(code=code, type="invalid_request_error", param="messages"))
    assert type(error) is ModelRefused
    assert (error.status, error.code, error.type, error.param) == (
        # Clients look for what is too long behind 400 alone.
        400 if code == "context_length_exceeded" else status,
        code,
        "invalid_request_error",
        "messages",
    )
    assert "Their words." not in error.message
    assert error.to_object()["status"] == error.status


@pytest.mark.parametrize(
    "code",
    [None, 400, "", "a sentence that is much too long to be a word for a program to use", "ü"],
)
def test_a_code_that_is_no_word_is_ours(code: object) -> None:
    error = answered(400, said(code=code, type="BadRequestError", param=["x"]))
    assert (error.code, error.type, error.param) == ("model_refused", "invalid_request_error", None)


@pytest.mark.parametrize("status", [400, 402, 403, 413, 422, 429, 500, 503])
@pytest.mark.parametrize(
    "body",
    [
        LEAK.encode(),
        said(message=LEAK),
        said(code=LEAK[24:50], param=LEAK[24:50], type=LEAK[-20:]),
        said(message=LEAK, code="abcdef123", type="abcdef123"),
        {"detail": LEAK},
        {"detail": [{"loc": ["body", LEAK[:40]], "msg": LEAK}]},
        {"error": LEAK},
    ],
)  # fmt: skip
def test_nothing_of_a_server_s_own_words_reaches_a_client(
    status: int, body: object, caplog: pytest.LogCaptureFixture
) -> None:
    told = json.dumps(answered(status, body).to_object())
    in_stream = Failures().in_stream(body)
    for leaked in LEAKED:
        assert leaked not in told + json.dumps(in_stream.to_object())
    for secret in ("hunter2", "sk-proj-abcdef123"):
        assert secret not in caplog.text


def test_the_operator_reads_what_the_server_said(caplog: pytest.LogCaptureFixture) -> None:
    answered(500, said(message=LEAK))
    assert (
        "the model's server answered 500: could not connect to postgres://…db.internal:5432/prod, "
        "key …"
    ) in caplog.text


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            "This model's maximum context length is 4096 tokens. But you requested 5000 tokens.",
            "context_length_exceeded",
            "(This model's maximum context length is 4096 tokens, you requested 5000 tokens)",
        ),
        (
            "prompt is too long: 9 tokens > 8 maximum",
            "context_length_exceeded",
            "(This model's maximum context length is 8 tokens, you requested 9 tokens)",
        ),
        ("Expected a value <= 2, but got 3 instead.", "model_refused", "(<= 2)"),
        ("tool choice requires a tool parser on db7", "model_refused", "can't use the tools"),
        ("temperature must be between 0 and 2.0 on db7", "model_refused", "(between 0 and 2.0)"),
        ("the value is >= 10.0.0.7", "model_refused", "send it again"),
    ],
)
def test_the_facts_of_a_validation_are_told(words: str, code: str, told: str) -> None:
    error = answered(400, said(message=words, code=400))
    assert error.code == code
    assert told in error.message
    assert "db7" not in error.message
    assert "10.0.0" not in error.message


@pytest.mark.parametrize(
    ("error", "param"),
    [
        ({"param": "temperature"}, "temperature"),
        ({"param": "messages[0].content"}, "messages[0].content"),
        ({"param": "messages.0.content"}, "messages.0.content"),
        ({"param": "a b"}, None),
        ({"param": "10.0.0.7:80"}, None),
        ({"param": "x" * 60}, None),
        ({"detail": [{"loc": ["body", "messages", 0, "content"]}]}, "messages.0.content"),
    ],
)
def test_a_parameter_s_name_is_told(error: dict[str, object], param: str | None) -> None:
    refused = answered(400, {"error": {"code": "unknown_parameter"} | error})
    assert (refused.code, refused.param) == ("unknown_parameter", param)
    assert param is None or f"(param: {param})" in refused.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"no JSON \xff", "no JSON"),
        (b"", ""),
        ({"object": "error", "message": "vLLM's", "code": 400}, "vLLM's"),
        ({"error": "Ollama's"}, "Ollama's"),
        ({"detail": "FastAPI's"}, "FastAPI's"),
        ([1], "[1]"),
        (said(message="x y " * 5000), "x y " * 70),
    ],
)
def test_whatever_shape_an_error_has(
    body: object, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = answered(400, body)
    assert error.message == (
        "the model refused the message: the server's log says why; change it and send it again"
    )
    assert words in caplog.text
    assert len(caplog.text) < 600


@pytest.mark.parametrize("status", [422, 500])
def test_a_request_that_an_error_repeats_does_not_reach_the_reader(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """FastAPI does so by default, and an agent's instructions stand in the request."""
    request = {"messages": [{"role": "system", "content": "a secret instruction"}]}
    wrong = {
        "type": "missing",
        "loc": ["body", "prompt"],
        "msg": "Field required",
        "input": request,
    }
    error = answered(status, {"detail": [wrong]})
    assert "secret" not in error.message
    assert error.param == ("prompt" if status == 422 else None)
    assert "secret" not in answered(status, {"request": request}).message
    assert "Field required" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "milliseconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7000),
        ({"retry_after": "0.5"}, 500),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1500),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "1e300"}, 86_400_000),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_too_many_requests_say_when_to_ask_again(
    headers: dict[str, str], milliseconds: int | None
) -> None:
    error = answered(429, said(code="rate_limit_exceeded", type="requests"), **headers)
    assert type(error) is UpstreamAnswered
    assert (error.status, error.type, error.code) == (
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
    )
    assert error.retry_after_ms == milliseconds
    assert is_worth_repeating(error)


def test_a_date_says_when_to_ask_again() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert answered(429, retry_after=at).retry_after_ms == pytest.approx(99_000, abs=2_000)


@pytest.mark.parametrize(
    ("status", "passed_on", "code"),
    [(429, 429, "upstream_throttled"), (503, 503, "upstream_overloaded"),
     (500, 502, "upstream_failed"), (502, 502, "upstream_failed"),
     (504, 502, "upstream_failed"), (408, 502, "upstream_failed")],
)  # fmt: skip
def test_what_passes_has_a_status_that_clients_repeat(
    status: int, passed_on: int, code: str
) -> None:
    error = answered(status, b"<html>")
    assert type(error) is UpstreamAnswered
    assert (error.status, error.code) == (passed_on, code)
    assert str(status) in error.message


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, said(code="insufficient_quota")),
        (429, said(type="insufficient_quota")),
        (402, said()),
        (429, said(code="1113")),  # GLM
        (429, {"message": "Their words.", "error_code": 1113}),
        (400, said(code="Arrearage", type="Arrearage")),  # DashScope
        (403, said(code="AllocationQuota.FreeTierOnly")),
    ],
)
def test_without_quota_nobody_should_ask_again(
    status: int, body: object, caplog: pytest.LogCaptureFixture
) -> None:
    error = answered(status, body)
    assert type(error) is UpstreamRejected
    assert (error.status, error.code, error.type) == (429, "insufficient_quota", "rate_limit_error")
    assert not is_worth_repeating(error)
    assert "Their words." not in error.message, "whose account it is is not for readers"
    assert "no quota left (Their words.)" in caplog.text


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_a_wrong_setting_is_told_to_who_can_mend_it(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    error = answered(status, said(message="Incorrect API key provided: sk-secret"))
    assert type(error) is UpstreamRejected
    assert (error.status, error.code) == (502, "model_not_set_up")
    assert "not set up" in error.message
    assert not is_worth_repeating(error)
    assert "secret" not in caplog.text + error.message
    assert f"answered {status}: check EVENFLOW_MODEL_URL" in caplog.text
    assert "EVENFLOW_MODEL_API_KEY: Incorrect API key provided: …" in caplog.text


def test_a_wrong_setting_is_one_line_however_many_ask(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures()
    for _ in range(100):
        failures.answered(401, {}, b"")
    assert len(caplog.records) == 1


# -- words for readers -----------------------------------------------------------------------------

FOR_READERS = "There is no stock data today. Ask the shop."


@pytest.mark.parametrize("status", [400, 422, 500])
def test_what_a_backend_says_to_readers_is_told_and_nothing_else_of_it(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    words = "  There is no\n\n\tstock data today. Ask the shop."
    error = answered(status, said(message=LEAK, user_message=words))
    assert type(error) is UpstreamExplained
    assert (error.code, error.message) == ("upstream_explained", FOR_READERS)
    assert (error.status, is_worth_repeating(error)) == (502, False)
    assert FOR_READERS not in caplog.text


def test_it_may_say_so_in_the_stream() -> None:
    error = Failures().in_stream({"message": LEAK, "user_message": FOR_READERS, "code": 429})
    assert (type(error), error.message) == (UpstreamExplained, FOR_READERS)


def test_its_words_have_a_bound() -> None:
    assert len(answered(500, said(user_message="x" * 1_000)).message) == 500


@pytest.mark.parametrize("words", [None, "", "  ", 7, ["x"], {"text": "x"}])
def test_what_are_no_words_explain_nothing(words: object) -> None:
    assert answered(500, said(user_message=words)).code == "upstream_failed"


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "model_not_set_up"), (429, "upstream_throttled"), (503, "upstream_overloaded")],
)
def test_a_wrong_key_and_a_busy_server_are_what_they_are_whatever_is_said(
    status: int, code: str
) -> None:
    assert answered(status, said(user_message=FOR_READERS)).code == code


# -- throttles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "rate limited", "code": "rate_limit_exceeded"}, 429),
        ({"message": "x", "code": "429"}, 429),
        ({"message": "x", "code": 429}, 429),
        ({"message": "x", "type": "tokens", "status_code": 429}, 429),
        ({"message": "x", "type": "rate_limit_error"}, 429),
        ({"message": "x", "type": "RateLimitError"}, 429),
        ({"message": "x", "status": "RESOURCE_EXHAUSTED", "code": 429}, 429),
        ({"message": "x", "status": "RESOURCE_EXHAUSTED"}, 429),
        ({"message": "x", "code": "ThrottlingException"}, 429),
        ({"message": "x", "error_type": "too_many_requests"}, 429),
        ({"message": "Rate limit reached for m", "type": "server_error"}, 429),
        ("Too many requests, slow down", 429),
        ({"message": "x", "code": "overloaded"}, 503),
        ({"message": "Overloaded", "type": "overloaded_error"}, 503),
        ({"message": "x", "code": 529}, 503),
        ({"message": "x", "code": "503"}, 503),
        ({"message": "x", "status": "UNAVAILABLE"}, 503),
        ({"error": "Model is overloaded", "error_type": "overloaded"}, 503),
        ({"error": {"message": "x"}, "error_type": "overloaded"}, 503),
        ("Model is overloaded", 503),
        ({"message": "The service is temporarily unavailable"}, 503),
        ({"message": "您的账户已达到速率限制，请您控制请求频率", "code": "1302"}, 429),
        ({"message": "该模型当前访问量过大，请您稍后再试", "code": 1305}, 429),
        ({"message": "You exceeded your current requests list.", "code": "limit_requests"}, 429),
        ({"message": "Request rate increased too quickly.", "type": "limit_burst_rate"}, 429),
        ({"message": "x", "__type": "ThrottlingException"}, 429),
        (
            {
                "message": "Too many tokens, please wait before trying again.",
                "code": 400,
                "type": "invalid_request_error",
            },
            429,
        ),
    ],
)
def test_every_form_of_a_throttle_is_one_and_is_not_the_server_s_failure(
    error: object, status: int
) -> None:
    for met in (Failures().in_stream(error), answered(500, {"error": error})):
        assert type(met) is UpstreamAnswered
        assert met.status == status
        assert is_throttled(met)
        assert not is_upstreams_fault(met)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        # Databricks, Baidu, MiniMax, OpenRouter
        ({"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "x"}, 429),
        ({"error_code": 18, "error_msg": "Open api qps request limit reached"}, 429),
        ({"error_code": 336100, "error_msg": "Server Is Busy"}, 503),
        ({"choices": [], "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, 429),
        ({"choices": [{"delta": {}, "error": {"code": 429, "message": "x"}}]}, 429),
        ({"message": '{"error": {"message": "x", "code": "rate_limit_exceeded"}}', "type": "error"},
         429),
    ],
)  # fmt: skip
def test_a_throttle_in_an_event_of_a_server_s_own_form(event: object, status: int) -> None:
    error = error_in(event)
    assert error is not None
    met = Failures().in_stream(error)
    assert (type(met), met.status) == (UpstreamAnswered, status)


def test_no_quota_in_an_event_of_a_server_s_own_form() -> None:
    met = Failures().in_stream(
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
    )
    assert met.code == "insufficient_quota"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"__type": "ThrottlingException", "message": "Slow."}),
        (400, {"error_code": "390112", "message": "too many requests"}),
        (400, said(message="ThrottlingException: Too many tokens, please wait.")),
        (400, said(message="Too many tokens, please wait before trying again.")),
        (400, said(message="You've hit the rate limit")),
        (403, [said(code=403, message="Quota exceeded for quota metric 'Generate'")]),
        (403, b"error code: 1015"),
    ],
)
def test_a_throttle_with_the_status_of_a_refusal(status: int, body: object) -> None:
    error = answered(status, body)
    assert (type(error), error.status, error.code) == (UpstreamAnswered, 429, "upstream_throttled")


@pytest.mark.parametrize(
    "quote", ["Invalid value: '{}'", "Unknown tool {{{}}}", 'No tool "{}"', "x" * 80 + " {}"]
)
@pytest.mark.parametrize("words", ["too many requests", "insufficient balance"])
def test_a_request_that_a_refusal_quotes_throttles_nobody(quote: str, words: str) -> None:
    body = said(message=quote.format(words), type="invalid_request_error")
    assert type(answered(400, body)) is ModelRefused


def test_a_region_without_the_service_is_no_overload() -> None:
    error = answered(403, said(message="The service is temporarily unavailable in your country"))
    assert error.code == "model_not_set_up"


@pytest.mark.parametrize(
    "body",
    [
        said(
            code=403,
            message="Your chosen model requires moderation and your input was flagged",
            metadata={"reasons": ["violence"], "flagged_input": "x"},
        ),
        {
            "code": "The caller does not have permission to execute the specified operation here",
            "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
        },
    ],
    ids=["OpenRouter", "xAI"],
)
def test_a_403_for_what_a_message_says_is_its_sender_s(
    body: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    for error in (answered(403, body), Failures().in_stream({"status": 403, **body})):
        assert type(error) is ModelRefused
        assert (error.status, error.code) == (400, "content_policy_violation")
    assert "check EVENFLOW_MODEL_URL" not in caplog.text


def test_headers_say_when_to_ask_again_where_the_event_does_not() -> None:
    headers = {"retry-after": "3"}
    throttled: dict[str, object] = {"code": "rate_limit_exceeded", "message": "x"}
    assert Failures().in_stream(throttled, headers).retry_after_ms == 3_000
    assert Failures().in_stream(throttled | {"retry_after": 7}, headers).retry_after_ms == 7_000
    assert Failures().in_stream({"message": "x"}, headers).retry_after_ms is None


@pytest.mark.parametrize("status", [498, 529])
def test_statuses_of_servers_that_are_full(status: int) -> None:
    error = answered(status, said())
    assert (error.status, error.code, error.type) == (503, "overloaded", "overloaded_error")
    assert not is_upstreams_fault(error)


def test_a_503_that_says_no_more_may_be_a_proxy_s() -> None:
    assert is_upstreams_fault(answered(503, b"<html>"))


@pytest.mark.parametrize(
    ("error", "milliseconds"),
    [
        ({"retry_after": 7}, 7_000),
        ({"retry_after_ms": 250}, 250),
        ({"message": "Rate limit reached. Please try again in 7.66s. Visit …"}, 7_660),
        ({"message": "Please try again in 1m2s."}, 62_000),
        ({"message": "Please retry in 31.5s."}, 31_500),
        ({"message": "retry after 20ms"}, 20),
        (
            {"details": [{"@type": "google.rpc.Help"},
                         {"@type": "google.rpc.RetryInfo", "retryDelay": "31s"}]},
            31_000,
        ),
        ({"message": "try it some other day"}, None),
    ],
)  # fmt: skip
def test_the_object_may_say_when_to_ask_again(
    error: dict[str, object], milliseconds: int | None
) -> None:
    error = {"message": "x", "code": 429} | error
    assert Failures().in_stream(error).retry_after_ms == milliseconds
    assert answered(429, {"error": error}).retry_after_ms == milliseconds
    if milliseconds is not None:
        assert answered(429, {"error": error}, retry_after="3").retry_after_ms == 3_000


def test_a_request_that_is_larger_than_the_quota_is_no_sign_for_others() -> None:
    words = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 41000."
    error = answered(429, said(message=words, code="rate_limit_exceeded"), retry_after="5")
    assert type(error) is UpstreamRejected
    assert (error.status, error.code, error.retry_after_ms) == (429, "rate_limit_exceeded", 5_000)
    assert not is_over_quota(error)
    assert not is_upstreams_fault(error)


@pytest.mark.parametrize(
    ("chunk", "is_error"),
    [
        ({"error": {"message": "x"}}, True),
        ({"message": "slow", "type": "rate_limit_error", "code": 429}, True),
        ({"object": "error", "message": "x", "code": 400}, True),
        ({"type": "error", "error": {"type": "overloaded_error"}}, True),
        ({"detail": "x"}, True),
        ({"error_code": 18, "error_msg": "x"}, True),
        ({"error_msg": "x"}, True),
        ({"__type": "ThrottlingException"}, True),
        ({"base_resp": {"status_code": 1002}, "choices": [{"delta": {}}]}, True),
        ({"base_resp": {"status_code": 0}, "choices": [{"delta": {}}]}, False),
        ({"error_code": 0, "error_msg": "success", "result": "x"}, False),
        ({"choices": [{"delta": {}, "error": {"code": 502}}]}, True),
        ({"choices": [{"delta": {}, "error": None}]}, False),
        ({"choices": [], "usage": {"prompt_tokens": 1}}, False),
        ({"choices": [{"delta": {}}], "error": None}, False),
        ({"event": "tool.start", "message": "x"}, False),
        ([], False),
    ],
)
def test_an_error_is_known_in_the_place_of_a_chunk(chunk: object, is_error: bool) -> None:
    assert (error_in(chunk) is not None) is is_error


@pytest.mark.parametrize(
    ("param", "told"),
    [
        ("AKIAIOSFODNN7EXAMPLE", None),
        ("messages[0].AKIAIOSFODNN7EXAMPLE", None),
        ("hunter2.of.the.database", None),
        ("my_flag", "my_flag"),
        ("my_flag[3].text", "my_flag[3].text"),
        ("tools[0].function.parameters", "tools[0].function.parameters"),
    ],
)
def test_a_parameter_has_names_of_the_api_or_of_the_request(param: str, told: str | None) -> None:
    body = json.dumps({"error": {"code": "invalid_value", "param": param}}).encode()
    error = Failures().answered(400, {}, body, frozenset({"my_flag"}))
    assert (error.param, (param in error.message)) == (told, told is not None)
