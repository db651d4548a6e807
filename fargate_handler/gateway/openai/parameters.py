"""The parameters of OpenAI's API that Evenflow doesn't obey: which of their values ask for nothing, and what the others hear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_core.errors import InvalidRequest

WITHOUT_EFFECT = frozenset(
    {
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
    }
)
"""They say nothing about the answer: accepted, whatever they are."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "moderation": (),
    "prediction": (),
    "presence_penalty": (0,),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}
"""They ask for what isn't there, unless they have one of these values, or null."""

NEUTRAL_IN_MESSAGES: dict[str, tuple[Any, ...]] = {
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "name": (),
    "parsed": (),
    "refusal": (),
}
"""The same of a message, as the clients send back what they were given."""

NEUTRAL_IN_STREAM_OPTIONS: dict[str, tuple[Any, ...]] = {"include_obfuscation": (False,)}


def check_parameters(given: Mapping[str, Any] | None, neutral: Mapping[str, tuple[Any, ...]], within: str = "") -> None:
    """Whether none of these asks for what nobody would do.

    Args:
        given: the parameters beside those that are obeyed.
        neutral: those that are known, with the values that ask for nothing.
        within: where they stand, with a dot at its end.

    Raises:
        InvalidRequest: `unknown_parameter` or `unsupported_parameter`.
    """
    for name, value in (given or {}).items():
        param = f"{within}{name}"
        if name in neutral:
            if value is not None and value not in neutral[name]:
                raise InvalidRequest(
                    f"{param} is not supported here; nothing was generated, leave it out",
                    code="unsupported_parameter",
                    param=param,
                )
        elif within or name not in WITHOUT_EFFECT:
            raise InvalidRequest(
                f"Unrecognized request argument supplied: {param[:100]}; nothing was generated",
                code="unknown_parameter",
                param=param[:100],
            )


def without(given: Mapping[str, Any] | None, *names: str) -> dict[str, Any]:
    """These parameters but those with one of the names."""
    return {name: value for name, value in (given or {}).items() if name not in names}
