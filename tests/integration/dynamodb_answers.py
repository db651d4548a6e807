"""DynamoDB's HTTP responses to requests that fail."""

from __future__ import annotations

import json
import zlib
from typing import Any

from aiohttp import web

from tests.integration.dynamodb_faults import Fault

_THROTTLED = (
    "The level of configured provisioned throughput for the table was exceeded. "
    "Consider increasing your provisioning level with the UpdateTable API."
)
_REASONS = {
    Fault.THROTTLED: ("ThrottlingError", "ProvisionedThroughputExceededException"),
    Fault.HOT_PARTITION: ("ProvisionedThroughputExceeded", "ThrottlingException"),
    Fault.CONFLICT: ("TransactionConflict", "TransactionConflictException"),
}


def failed(fault: Fault, operation: str, body: bytes) -> web.Response:
    """What is answered instead, by a fault that keeps it from being done."""
    if fault in _REASONS:
        reason, code = _REASONS[fault]
        if operation == "TransactWriteItems":
            rest = len(json.loads(body)["TransactItems"]) - 1
            return cancelled([reason, *["None"] * rest])
        return error(400, code, _THROTTLED if fault is Fault.THROTTLED else code)
    if fault is Fault.INTERNAL_ERROR:
        return error(
            500,
            "InternalServerError",
            "The request processing has failed because of an unknown error.",
        )
    return web.Response(
        status=503, text="<html>503 Service Unavailable</html>", content_type="text/html"
    )


def cancelled(codes: list[str]) -> web.Response:
    """A transaction that was cancelled, with the reason of each action."""
    message = (
        "Transaction cancelled, please refer cancellation reasons for specific reasons "
        f"[{', '.join(codes)}]"
    )
    reasons = {"CancellationReasons": [{"Code": code} for code in codes]}
    return error(400, "TransactionCanceledException", message, reasons)


def error(
    status: int, code: str, message: str, further: dict[str, Any] | None = None
) -> web.Response:
    """An error by its code."""
    body = {
        "__type": f"com.amazonaws.dynamodb.v20120810#{code}",
        "message": message,
        **(further or {}),
    }
    return plain(status, json.dumps(body).encode())


def plain(status: int, body: bytes) -> web.Response:
    """A response as DynamoDB sends it."""
    headers = {"Content-Type": "application/x-amz-json-1.0", "x-amz-crc32": str(zlib.crc32(body))}
    return web.Response(status=status, body=body, headers=headers)
