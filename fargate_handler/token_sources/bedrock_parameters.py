"""Parameters of OpenAI's API that ConverseStream lacks: some are left out, others refused."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

from evenflow.stream_core.base.errors import UnsupportedByModel

_logger = logging.getLogger(__name__)

WITHOUT_EFFECT = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "user",
    }
)
"""They don't affect the answer, so they are left out."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "top_logprobs": (0,),
}
"""With one of these values they ask for nothing."""

_MODELS_OWN = ("top_k", "reasoning_effort")


def models_own(passed: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that some models have by the same names. They are not the service's own."""
    return {name: passed[name] for name in _MODELS_OWN if name in passed}


def wanted_schema(passed: Mapping[str, Any]) -> dict[str, Any] | None:
    """The name, schema and description of a JSON answer. None if none is asked for.

    Raises:
        UnsupportedByModel: there is no schema.
    """
    match passed.get("response_format"):
        case {"type": "json_schema", "json_schema": {"name": str(), "schema": dict()} as wanted}:
            return dict(wanted)
        case {"type": "json_schema"}:
            raise _refusal(
                "response_format needs a json_schema with a name and a schema here",
                "response_format",
            )
    return None


def check_passed(passed: Mapping[str, Any]) -> None:
    """Check that every parameter can be left out or be passed to the model.

    Raises:
        UnsupportedByModel: one of them can't.
    """
    for name, value in passed.items():
        if name in _MODELS_OWN or (name in NEUTRAL and value in NEUTRAL[name]):
            continue
        if name in WITHOUT_EFFECT:
            _left_out(name)
        elif name != "response_format" or wanted_schema(passed) is None:
            hint = " (a json_schema is)" if name == "response_format" else ""
            raise _refusal(
                f"{name[:100]} is not supported by models on Amazon Bedrock{hint}; leave it out",
                name[:100],
            )


@functools.cache
def _left_out(name: str) -> None:
    """Log that a parameter is left out, once a name."""
    _logger.info("%s of a request is left out: models on Bedrock don't have it", name)


def _refusal(what: str, param: str) -> UnsupportedByModel:
    return UnsupportedByModel(
        f"{what}; nothing was generated", code="unsupported_parameter", param=param
    )
