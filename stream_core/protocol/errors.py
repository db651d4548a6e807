"""Every error of Evenflow, in the contract's one shape.

A message says what happened, what was kept and what to do. `status` is the HTTP status; over a WebSocket the same
body travels in an `error`, `throttle`, `system.busy` or `chat.response.error` frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EvenflowError(Exception):
    """Base of all errors that reach a client.

    Args:
        message: what happened, what was kept, what to do.
        code: stable machine-readable code, listed in docs/protocol.md.
        param: the field at fault, where there is one.
        retry_after_ms: milliseconds after which trying again makes sense.
        status, type: what a model's server said, where that is passed on; the class' own otherwise.
        extra: further members of the error object, such as `expected`.
    """

    status: int = 500
    type: str = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after_ms: int | None = None,
        status: int | None = None,
        type: str | None = None,  # noqa: A002 - the name that it has on the wire
        **extra: Any,
    ) -> None:
        super().__init__(message)
        self.status_of_model = status
        if status is not None:
            self.status = status
        if type is not None:
            self.type = type
        self.message = message
        self.code = code
        self.param = param
        self.retry_after_ms = retry_after_ms
        self.extra = extra

    @property
    def retry_after_seconds(self) -> int | None:
        """What a `Retry-After` header says: whole seconds, rounded up."""
        return None if self.retry_after_ms is None else -(-self.retry_after_ms // 1000)

    def to_object(self) -> dict[str, Any]:
        """The error object: `{"type", "code", "message", "param"?, "retry_after_ms"?, "status"?, …}`.

        `status` is there where a model's server said another one than the kind of error has.
        """
        error: dict[str, Any] = {"type": self.type, "code": self.code, "message": self.message}
        if self.param is not None:
            error["param"] = self.param
        if self.retry_after_ms is not None:
            error["retry_after_ms"] = self.retry_after_ms
        own = type(self)
        if self.status_of_model is not None and (self.status, self.type) != (own.status, own.type):
            error["status"] = self.status_of_model
        return error | self.extra

    def to_body(self) -> dict[str, Any]:
        """The body of an HTTP answer: `{"error": {…}}`."""
        return {"error": self.to_object()}


class InternalError(EvenflowError):
    """A defect of ours. The details are in the log, never in the answer."""


class InvalidRequest(EvenflowError):
    status = 400
    type = "invalid_request_error"


class AuthenticationFailed(EvenflowError):
    status = 401
    type = "authentication_error"


class OriginNotAllowed(EvenflowError):
    status = 403
    type = "permission_error"


class NotFound(EvenflowError):
    status = 404
    type = "not_found_error"


class MethodNotAllowed(EvenflowError):
    status = 405
    type = "invalid_request_error"


class Conflict(EvenflowError):
    status = 409
    type = "conflict_error"


class Gone(EvenflowError):
    status = 410
    type = "not_found_error"


class TooLarge(EvenflowError):
    status = 413
    type = "invalid_request_error"


class ModelRefused(EvenflowError):
    status = 422
    type = "model_refusal_error"


class UnsupportedByModel(ModelRefused):
    """The request asks for what the model's service doesn't have; `param` names it. The model was not called."""

    status = 400
    type = "invalid_request_error"


class UpgradeRequired(EvenflowError):
    status = 426
    type = "invalid_request_error"


class RateLimited(EvenflowError):
    status = 429
    type = "rate_limit_error"


class UpstreamFailed(EvenflowError):
    status = 502
    type = "upstream_error"


class UpstreamAnswered(UpstreamFailed):
    """The model's server answered with a status that says it failed: nothing of an answer was generated."""


class UpstreamRejected(UpstreamFailed):
    """The model's server will not have us as we are configured: another attempt would end alike."""


class Overloaded(EvenflowError):
    status = 503
    type = "overloaded_error"


class UpstreamTimeout(EvenflowError):
    status = 504
    type = "upstream_error"


_REFUSALS = (400, 413, 422)


def is_refusal(error: Mapping[str, Any]) -> bool:
    """Whether the model would not take the message: an error of its sender, and no failure of the model or of ours."""
    return error["type"] in (ModelRefused.type, UnsupportedByModel.type) or error.get("status") in _REFUSALS


_SENSELESS = frozenset(["insufficient_quota", "model_not_set_up"])


def is_worth_repeating(error: EvenflowError) -> bool:
    """Whether the same request may end otherwise a little later; else it waits for somebody to mend a setting or an account."""
    return error.code not in _SENSELESS
