"""Evaluates policies as IAM does, as far as our templates use its language.

What it doesn't know, such as an operator of conditions, it refuses instead of guessing.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import Any

from tests.infrastructure.resolved_account import as_list

Statement = Mapping[str, Any]


class Decision(Enum):
    """What the statements of one kind of policy say."""

    ALLOWED = auto()
    NOT_ALLOWED = auto()
    DENIED = auto()


@dataclass(frozen=True)
class ApiRequest:
    """What IAM is asked.

    Args:
        principal: the role's ARN, or a service: `cloudwatch.amazonaws.com`.
        context: condition keys that the request has, with their values.
    """

    principal: str
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


class UnknownPolicyElementError(Exception):
    """A policy uses something that is not evaluated here."""


def decide(statements: Iterable[Statement], request: ApiRequest) -> Decision:
    """What the statements say of a request. Those of resources have principals."""
    effects = {statement["Effect"] for statement in statements if applies(statement, request)}
    if "Deny" in effects:
        return Decision.DENIED
    return Decision.ALLOWED if effects else Decision.NOT_ALLOWED


def applies(statement: Statement, request: ApiRequest) -> bool:
    """Whether a statement is about a request."""
    unknown = statement.keys() - {
        "Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition",
    }  # fmt: skip
    if unknown:
        raise UnknownPolicyElementError(f"{sorted(unknown)} in {statement}")
    return (
        _is_one_of(statement, "Action", request.action.lower(), str.lower)
        and _is_one_of(statement, "Resource", request.resource, str)
        and ("Principal" not in statement or _is_principal(statement["Principal"], request))
        and all(
            _holds(operator, key, as_list(values), request.context)
            for operator, conditions in statement.get("Condition", {}).items()
            for key, values in conditions.items()
        )
    )


def _is_one_of(statement: Statement, element: str, value: str, form: Callable[[str], str]) -> bool:
    negated = f"Not{element}"
    patterns = as_list(statement[negated if negated in statement else element])
    found = any(matches(form(pattern), value) for pattern in patterns)
    return found is not (negated in statement)


def matches(pattern: str, value: str) -> bool:
    """Whether a pattern with `*` and `?` has this value."""
    if "${" in pattern:
        raise UnknownPolicyElementError(f"the policy variable in {pattern}")
    return _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def _is_principal(principal: Any, request: ApiRequest) -> bool:
    named = {"AWS": principal} if principal == "*" else principal
    account = request.principal.split(":")[4] if request.principal.startswith("arn:") else ""
    # An account's root lets the account's own policies decide.
    ours = {"*", request.principal, account, f"arn:aws:iam::{account}:root"}
    return any(name in ours for names in named.values() for name in as_list(names) if name)


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "ArnEquals": matches,
    "ArnLike": matches,
    "Bool": lambda pattern, value: pattern == value,
    "StringEquals": lambda pattern, value: pattern == value,
    "StringLike": matches,
}


def _holds(operator: str, key: str, values: list[str], context: Mapping[str, str]) -> bool:
    """Whether a condition holds. Keys of requests have one value each."""
    found = {name.lower(): value for name, value in context.items()}.get(key.lower())
    if operator == "Null":
        return values == [str(found is None).lower()]
    for_all = operator.startswith("ForAllValues:")
    name = operator.removeprefix("ForAllValues:").removeprefix("ForAnyValue:")
    negated = "Not" in name
    test = _OPERATORS.get(name.removesuffix("IfExists").replace("Not", ""))
    if test is None:
        raise UnknownPolicyElementError(f"the operator {operator}")
    if found is None:
        return for_all or negated or name.endswith("IfExists")
    return any(test(str(value), found) for value in values) is not negated
