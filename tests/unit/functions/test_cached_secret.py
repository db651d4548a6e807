from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pytest
from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError, EndpointConnectionError

from evenflow.functions.cached_secret import MAX_AGE_SECONDS, CachedSecret
from evenflow.stream_aws.keys import parse_signing_keys
from evenflow.stream_core.base.errors import Overloaded

OLD, NEW = json.dumps({"k1": "o" * 40}), json.dumps({"k2": "n" * 40})
SHORT = json.dumps({"k1": "too-short"})


class SecretsManager:
    """Answers in turn what it is given; the last answer stays."""

    def __init__(self, *answers: Mapping[str, str] | Exception) -> None:
        self.answers = list(answers)
        self.calls = 0

    def get_secret_value(self, **request: str) -> Mapping[str, str]:
        assert request == {"SecretId": "the-secret", "VersionStage": "AWSCURRENT"}
        self.calls += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def holds(secret_string: str) -> dict[str, str]:
    return {"SecretString": secret_string}


DENIED = ClientError(
    {"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetSecretValue"
)
UNREACHABLE = EndpointConnectionError(endpoint_url="https://secretsmanager.example")
FAILURES = [DENIED, UNREACHABLE, holds(SHORT), holds("{"), {"SecretBinary": "AA=="}]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def cached(manager: SecretsManager, logger: Logger, clock: Clock) -> CachedSecret[dict[str, bytes]]:
    return CachedSecret(manager, "the-secret", parse_signing_keys, logger, clock)


def test_a_secret_is_read_once_in_a_while(logger: Logger, clock: Clock) -> None:
    manager = SecretsManager(holds(OLD), holds(NEW))
    secret = cached(manager, logger, clock)
    for _ in range(5):
        assert secret.get() == {"k1": b"o" * 40}
    clock.now += MAX_AGE_SECONDS - 0.1
    assert list(secret.get()) == ["k1"]
    assert manager.calls == 1
    clock.now += 0.1
    assert list(secret.get()) == ["k2"]
    assert manager.calls == 2


@pytest.mark.parametrize(
    "failure", FAILURES, ids=["denied", "unreachable", "short", "no JSON", "binary"]
)
def test_the_last_good_value_stays_in_use(
    failure: Mapping[str, str] | Exception, log: io.StringIO, logger: Logger, clock: Clock
) -> None:
    manager = SecretsManager(holds(OLD), failure, failure, holds(NEW))
    secret = cached(manager, logger, clock)
    secret.get()
    clock.now += MAX_AGE_SECONDS
    for _ in range(5):
        assert list(secret.get()) == ["k1"]
    assert manager.calls == 2  # nobody waits for an outage that has just been seen
    clock.now += 10
    assert list(secret.get()) == ["k1"]
    assert manager.calls == 3
    clock.now += 10
    assert list(secret.get()) == ["k2"]
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["level"], line["secret_id"]) for line in lines] == [("ERROR", "the-secret")] * 2
    assert "last good one stays" in lines[0]["message"]
    assert "too-short" not in log.getvalue()


@pytest.mark.parametrize(
    "failure", FAILURES, ids=["denied", "unreachable", "short", "no JSON", "binary"]
)
def test_without_an_earlier_value_the_call_is_refused_and_a_little_later_asked_again(
    failure: Mapping[str, str] | Exception, log: io.StringIO, logger: Logger, clock: Clock
) -> None:
    manager = SecretsManager(failure, holds(OLD))
    secret = cached(manager, logger, clock)
    for _ in range(5):
        with pytest.raises(Overloaded) as refusal:
            secret.get()
    assert (refusal.value.status, refusal.value.code, refusal.value.retry_after_seconds) == (
        503,
        "keys_unavailable",
        2,
    )
    assert manager.calls == 1, "no call waits for an outage that another has just seen"
    assert len(log.getvalue().splitlines()) == 1
    assert "calls are refused" in log.getvalue()
    clock.now += 1
    assert list(secret.get()) == ["k1"]


def test_while_nothing_is_held_it_is_asked_for_ever_more_rarely_and_each_refusal_says_when(
    logger: Logger, clock: Clock
) -> None:
    manager = SecretsManager(DENIED)
    secret = cached(manager, logger, clock)
    began, asked_at, told = clock.now, [], []
    for _ in range(400):
        calls = manager.calls
        with pytest.raises(Overloaded) as refusal:
            secret.get()
        if manager.calls > calls:
            asked_at.append(clock.now - began)
            told.append(refusal.value.retry_after_seconds)
        clock.now += 0.125
    assert asked_at == [0, 1, 3, 7, 15, 25, 35, 45]
    assert told == [2, 2, 4, 8, 10, 10, 10, 10]


def test_an_outage_that_is_over_is_forgotten(logger: Logger, clock: Clock) -> None:
    manager = SecretsManager(DENIED, DENIED, holds(OLD), DENIED, DENIED)
    secret = cached(manager, logger, clock)
    for _ in range(2):
        with pytest.raises(Overloaded):
            secret.get()
        clock.now += 2
    assert list(secret.get()) == ["k1"]
    clock.now += MAX_AGE_SECONDS
    secret.get()
    clock.now += 9.9
    secret.get()
    assert manager.calls == 4
    clock.now += 0.1
    secret.get()
    assert manager.calls == 5
