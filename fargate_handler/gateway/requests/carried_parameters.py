"""Parameters that ask for an answer which is not carried here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenflow.stream_core.protocol.errors import InvalidRequest

_CARRIED = ["text"]
_LEGACY = {"functions": "tools", "function_call": "tool_choice"}


def check_carried(parameters: Mapping[str, Any]) -> None:
    """Check that the answer can be passed on, before the model is paid for it.

    Raises:
        InvalidRequest: it would have audio, images, or calls in their form before there were tools.
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
            raise _not_carried(name, f"it is the form before there were tools; send `{newer}`")


def _not_carried(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"{name} is not served: {why}. Nothing was generated",
        code="unsupported_parameter",
        param=name,
    )
