"""Refusals, as DynamoDB words them."""

from __future__ import annotations

from typing import Any

_VALIDATION = "ValidationException"
_SERIALIZATION = "SerializationException"
_NAMESPACES = {
    _VALIDATION: "com.amazon.coral.validate#",
    _SERIALIZATION: "com.amazon.coral.service#",
    "UnknownOperationException": "com.amazon.coral.service#",
}
_NAMESPACE = "com.amazonaws.dynamodb.v20120810#"
_THROTTLED = (
    "The level of configured provisioned throughput for the table was exceeded. "
    "Consider increasing your provisioning level with the UpdateTable API."
)


class RequestRefused(Exception):
    """A request that is answered with HTTP 400.

    Args:
        code: DynamoDB's name for it.
        details: what the answer holds besides, such as `Item`.
    """

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        """The answer."""
        return {
            "__type": _NAMESPACES.get(self.code, _NAMESPACE) + self.code,
            "message": self.message,
            **self.details,
        }


def invalid(message: str) -> RequestRefused:
    """A request that breaks a rule."""
    return RequestRefused(_VALIDATION, message)


def unreadable(message: str) -> RequestRefused:
    """A request that is no JSON, or has one type where it should have another."""
    return RequestRefused(_SERIALIZATION, message)


def throttled() -> RequestRefused:
    """A request that came too soon after others."""
    return RequestRefused("ProvisionedThroughputExceededException", _THROTTLED)


def condition_failed(**details: Any) -> RequestRefused:
    """A write whose condition did not hold; `Item` is what stood in its way, where the request asked for it."""
    return RequestRefused("ConditionalCheckFailedException", "The conditional request failed", **details)
