"""All errors that reach a client, in one shape.

A message states what happened, what was kept and what to do. `status` is the HTTP status. Over a
WebSocket the object is in an `error`, `throttle`, `system.busy` or `chat.response.error` frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EvenflowError(Exception):
    """Base of all errors that reach a client.

    Args:
        message: what happened, what was kept, what to do.
        code: a stable code for programs, listed in docs/reference/errors.md.
        param: the wrong field, where there is one.
        retry_after_ms: when to try again, in milliseconds from now.
        status, type: those of the model's server, where they are passed on. None: the class's own.
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
        type: str | None = None,  # noqa: A002 - its name in the protocol
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
        """The value of a `Retry-After` header: whole seconds, rounded up."""
        return None if self.retry_after_ms is None else -(-self.retry_after_ms // 1000)

    def name_param(self, names: Mapping[str, str]) -> None:
        """Replace the model server's name of the wrong field by that of the client's API."""
        if self.param is not None and (name := names.get(self.param)) is not None:
            old_hint, self.param = f"(param: {self.param})", name
            self.message = self.message.replace(old_hint, f"(param: {name})")

    def to_object(self) -> dict[str, Any]:
        """The error object:
        `{"type", "code", "message", "param"?, "retry_after_ms"?, "status"?, …}`.

        `status` is there where the model's server gave another one than this kind of error has.
        """
        error: dict[str, Any] = {"type": self.type, "code": self.code, "message": self.message}
        if self.param is not None:
            error["param"] = self.param
        if self.retry_after_ms is not None:
            error["retry_after_ms"] = self.retry_after_ms
        error_class = type(self)
        if self.status_of_model is not None and (self.status, self.type) != (
            error_class.status,
            error_class.type,
        ):
            error["status"] = self.status_of_model
        return error | self.extra

    def to_body(self) -> dict[str, Any]:
        """The body of an HTTP answer: `{"error": {…}}`."""
        return {"error": self.to_object()}


class InternalError(EvenflowError):
    """A fault of ours. Its details are in the operator's log, never in the answer."""


class InvalidRequest(EvenflowError):
    status = 400
    type = "invalid_request_error"


class AuthenticationFailed(EvenflowError):
    status = 401
    type = "authentication_error"


class OriginNotAllowed(EvenflowError):
    status = 403
    type = "permission_error"


class HostNotAllowed(EvenflowError):
    status = 403
    type = "permission_error"


class NotPermitted(EvenflowError):
    """The caller is identified, and lacks the permission."""

    status = 403
    type = "permission_error"


class NotFound(EvenflowError):
    status = 404
    type = "not_found_error"


class MethodNotAllowed(EvenflowError):
    status = 405
    type = "invalid_request_error"


class RequestTimeout(EvenflowError):
    """The request came too slowly. Its connection ends with the answer."""

    status = 408
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


class UnsupportedMediaType(EvenflowError):
    """The body's type or encoding isn't taken here. `expected` names what is."""

    status = 415
    type = "invalid_request_error"


class ModelRefused(EvenflowError):
    status = 422
    type = "model_refusal_error"


class UnsupportedByModel(ModelRefused):
    """The request has a parameter that the model's service lacks. The model was not called."""

    status = 400
    type = "invalid_request_error"


class UpgradeRequired(EvenflowError):
    status = 426
    type = "invalid_request_error"


class RateLimited(EvenflowError):
    status = 429
    type = "rate_limit_error"


class HeadTooLarge(EvenflowError):
    status = 431
    type = "invalid_request_error"


class UpstreamFailed(EvenflowError):
    status = 502
    type = "upstream_error"


class UpstreamAnswered(UpstreamFailed):
    """The model's server answered with a failure, so nothing was generated."""


class UpstreamUnreadable(UpstreamFailed):
    """The model's server sent an invalid answer. It accepts calls, so others may succeed."""


class UpstreamRejected(UpstreamFailed):
    """The model's server refuses our configuration. Another attempt would fail as well."""


class UpstreamExplained(UpstreamRejected):
    """The model's server failed, and explains why in a text for readers."""

    def unexplained(self) -> UpstreamRejected:
        """The same error without its words, which no content filter has read."""
        return UpstreamRejected(
            "the model's server ended with an error; what came before was kept",
            code="upstream_failed",
        )


class Overloaded(EvenflowError):
    status = 503
    type = "overloaded_error"


def written_by_newer_version() -> Overloaded:
    """The error of a response that a newer version of the service writes, as to an older one."""
    return Overloaded(
        "a newer version of the service writes this response, and this node can't read it yet; "
        "the response goes on, ask again",
        code="newer_form",
        retry_after_ms=1_000,
    )


class TooSlow(Overloaded):
    """The client took too little for too long. Its stream ends, and it may resume."""


class UpstreamTimeout(EvenflowError):
    status = 504
    type = "upstream_error"


_REFUSALS = (400, 413, 422)


def is_failure(error: Mapping[str, Any]) -> bool:
    """Whether an answer's error is a failure of this service or of its model.

    A message that the model rejected is its sender's error. A model over its quota pages by the
    metric `upstream.throttles` instead, since a rollback would not help.
    """
    is_refusal = error["type"] in (ModelRefused.type, UnsupportedByModel.type)
    return not (
        is_refusal or error.get("status") in _REFUSALS or error["code"] == "upstream_throttled"
    )


def is_for_want_of_room(error: EvenflowError) -> bool:
    """Whether the node, its store or its model had no room, by no fault or limit of the sender.

    If a node leaves, other nodes have room. A full store rejects the senders with most in it.
    """
    is_overload = isinstance(error, Overloaded) and error.code not in ("draining", "store_full")
    return is_overload or error.code in ("queue_full", "sessions_full")


def is_throttled(error: EvenflowError) -> bool:
    """Whether the model's server had too much to do."""
    return isinstance(error, UpstreamAnswered) and error.type in (RateLimited.type, Overloaded.type)


def is_over_quota(error: EvenflowError) -> bool:
    """Whether the model's server accepts no more calls for now."""
    return isinstance(error, UpstreamAnswered) and error.status == RateLimited.status


# The code of a 503 without a reason. It may come from a proxy, since the server is down.
_PERHAPS_DOWN = "upstream_overloaded"


def is_upstreams_fault(error: EvenflowError) -> bool:
    """Whether the model's server failed. A server that throttles, reports an overload, or rejects a
    request or our settings, works.
    """
    says_it_is_busy = is_throttled(error) and error.code != _PERHAPS_DOWN
    works = isinstance(error, UpstreamRejected) or is_over_quota(error) or says_it_is_busy
    return isinstance(error, UpstreamFailed | UpstreamTimeout) and not works


_PERMANENT = frozenset(
    [
        *("insufficient_quota", "budget_exhausted", "model_not_set_up", "model_without_price"),
        "upstream_explained",  # the same backend has the same reason
    ]
)


def is_worth_repeating(error: EvenflowError) -> bool:
    """Whether the request may succeed later. If not, a setting or an account must be mended."""
    return error.code not in _PERMANENT
