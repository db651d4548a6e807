"""Policies are evaluated as IAM's user guide says ("Policy evaluation logic", "IAM JSON policy
elements").
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.infrastructure.iam_evaluation import (
    ApiRequest,
    Decision,
    UnknownPolicyElementError,
    applies,
    decide,
)

_ROLE = "arn:aws:iam::111111111111:role/a"
_OBJECT = "arn:aws:s3:::bucket/usage/day"
_REQUEST = ApiRequest(
    _ROLE, "s3:PutObject", _OBJECT, {"aws:PrincipalAccount": "111111111111", "s3:prefix": "usage/"}
)
_ANY = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def _conditions(operator: str, key: str, *values: str) -> dict[str, Any]:
    return {**_ANY, "Condition": {operator: {key: list(values)}}}


@pytest.mark.parametrize(
    "statement",
    [
        _ANY,
        {**_ANY, "Action": ["s3:GetObject", "S3:putobject"]},
        {**_ANY, "Action": "s3:Put*"},
        {**_ANY, "Resource": "arn:aws:s3:::bucket/*"},
        {**_ANY, "Resource": "arn:aws:s3:::bucket/usage/d?y"},
        {"Effect": "Allow", "NotAction": "dynamodb:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::other/*"},
        {**_ANY, "Principal": "*"},
        {**_ANY, "Principal": {"AWS": _ROLE}},
        {**_ANY, "Principal": {"AWS": ["arn:aws:iam::111111111111:root"]}},
        _conditions("StringEquals", "AWS:principalaccount", "2", "111111111111"),
        _conditions("StringNotEquals", "s3:prefix", "requests/"),
        _conditions("StringNotEquals", "aws:missing", "x"),
        _conditions("StringLike", "s3:prefix", "usa*"),
        _conditions("StringEqualsIfExists", "aws:missing", "x"),
        _conditions("ForAllValues:StringEquals", "aws:missing", "x"),
        _conditions("Null", "aws:missing", "true"),
    ],
)
def test_a_statement_that_is_about_a_request(statement: dict[str, Any]) -> None:
    assert applies(statement, _REQUEST)


@pytest.mark.parametrize(
    "statement",
    [
        {**_ANY, "Action": "s3:GetObject"},
        {**_ANY, "Action": "s3:PutObjectAcl"},
        {**_ANY, "Resource": "arn:aws:s3:::bucket"},
        {**_ANY, "Resource": "arn:aws:s3:::BUCKET/*"},
        {"Effect": "Allow", "NotAction": ["s3:*"], "Resource": "*"},
        {"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::bucket/*"},
        {**_ANY, "Principal": {"AWS": "arn:aws:iam::111111111111:role/b"}},
        {**_ANY, "Principal": {"AWS": "arn:aws:iam::222222222222:root"}},
        {**_ANY, "Principal": {"Service": "s3.amazonaws.com"}},
        _conditions("StringEquals", "aws:PrincipalAccount", "2"),
        _conditions("StringEquals", "aws:missing", "x"),
        _conditions("StringEquals", "s3:prefix", "usa*"),
        _conditions("StringNotLike", "s3:prefix", "usa*"),
        _conditions("ForAnyValue:StringEquals", "aws:missing", "x"),
        _conditions("Bool", "aws:SecureTransport", "false"),
        _conditions("Null", "s3:prefix", "true"),
    ],
)
def test_a_statement_that_is_about_others(statement: dict[str, Any]) -> None:
    assert not applies(statement, _REQUEST)


def test_a_denial_counts_more_than_what_is_allowed() -> None:
    denial = {**_ANY, "Effect": "Deny", "Action": "s3:*"}
    assert decide([_ANY, denial], _REQUEST) is Decision.DENIED
    assert decide([_ANY], _REQUEST) is Decision.ALLOWED
    assert decide([], _REQUEST) is Decision.NOT_ALLOWED


@pytest.mark.parametrize(
    "statement",
    [
        _conditions("NumericLessThan", "s3:max-keys", "10"),
        {**_ANY, "NotPrincipal": "*"},
        {**_ANY, "Resource": "arn:aws:s3:::${aws:username}"},
    ],
)
def test_what_is_not_evaluated_is_refused(statement: dict[str, Any]) -> None:
    with pytest.raises(UnknownPolicyElementError):
        applies(statement, _REQUEST)
