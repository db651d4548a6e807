"""Rejects parameters that request an answer in a form that Evenflow can't deliver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenflow.stream_core.base.errors import InvalidRequest

_CARRIED = ["text"]
_LEGACY = {"functions": "tools", "function_call": "tool_choice"}


def check_carried(parameters: Mapping[str, Any]) -> None:
    """Check that the answer can be delivered, before the model is paid for it.

    Raises:
        InvalidRequest: it would have audio, images, or calls in the form that preceded tools.
    """
    modalities = parameters.get("modalities")
    if modalities is not None and modalities != _CARRIED:
        raise _not_carried(
            "modalities", 'answers are text and calls here; leave it out, or send ["text"]'
        )
    if parameters.get("audio") is not None:
        raise _not_carried("audio", "answers are text and calls here; leave it out")
    for name, newer in _LEGACY.items():
        if parameters.get(name):
            raise _not_carried(name, f"it is the form that preceded tools; send `{newer}`")


def _not_carried(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"{name} is not served: {why}. Nothing was generated",
        code="unsupported_parameter",
        param=name,
    )
