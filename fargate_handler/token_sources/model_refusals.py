"""Builds the error that a client gets if the model's server rejects its message.

The error has only words that are listed here. A server's own words may contain anything: a stack
trace, an address, a key. They are in the operator's log, with secrets masked.
"""

from __future__ import annotations

import re
from typing import get_args

from evenflow.stream_core.base.errors import InvalidRequest, ModelRefused
from evenflow.stream_core.http.http_contract import ErrorType
from evenflow.stream_core.upstream.context_length import TOO_LONG, ContextLengths

REFUSED = "model_refused"

_LONGER = "it is too long for the model; shorten it"
_TOOLS = "it can't use the tools of the request like this; the server's log says why"
_WRONG_VALUE = "a parameter has a value that it doesn't take; change it"
_NOT_KNOWN = "unsupported parameter; leave it out"
_POLICY = "its content policy doesn't allow it; put it another way"
_IMAGE = "it can't read an image; send another one"
_WORDS = {
    TOO_LONG: _LONGER,
    "string_above_max_length": _LONGER,
    "array_above_max_length": _LONGER,
    "content_policy_violation": _POLICY,
    "content_filter": _POLICY,
    "invalid_prompt": _POLICY,
    "invalid_type": _WRONG_VALUE,
    "invalid_value": _WRONG_VALUE,
    "unsupported_value": _WRONG_VALUE,
    "integer_above_max_value": _WRONG_VALUE,
    "integer_below_min_value": _WRONG_VALUE,
    "decimal_above_max_value": _WRONG_VALUE,
    "decimal_below_min_value": _WRONG_VALUE,
    "invalid_function_parameters": "the schema of a tool is not valid; change it",
    "invalid_json_schema": "the schema of the answer is not valid; change it",
    "missing_required_parameter": "a parameter is missing; add it",
    "unknown_parameter": _NOT_KNOWN,
    "unsupported_parameter": _NOT_KNOWN,
    "invalid_base64": _IMAGE,
    "invalid_image": _IMAGE,
    "invalid_image_format": _IMAGE,
    "invalid_image_url": _IMAGE,
    "image_parse_error": _IMAGE,
    "image_too_large": _IMAGE,
    REFUSED: "the server's log says why; change it and send it again",
}
"""The codes that are passed on, each with our words for it."""

_ABOUT_LENGTH = re.compile(
    r"too (?:long|large for model)|context[ _](?:length|window|size)"
    r"|maximum (?:context|prompt|input) |too many (?:input |prompt )?tokens|token limit"
    r"|exceeds the (?:maximum number of tokens|limit of \d)|reduce the length of the messages"
    r"|`inputs` tokens|request too large|more than max tokens",
    re.IGNORECASE,
)
_ABOUT_TOOLS = re.compile(r"\b(tool|function)s?\b|\btool_", re.IGNORECASE)
# Facts that help. Only their digits are the server's own words.
_FACTS = re.compile(
    r"(?<!\w)[<>]=? -?\d{1,9}(?:\.\d{1,9})?(?![\w.])"
    r"|between -?\d{1,9}(?:\.\d{1,9})? and -?\d{1,9}(?:\.\d{1,9})?(?![\w.])",
    re.IGNORECASE,
)
_MOST_FACTS = 4
# Parameter names of the API. Any other word of a server may come from its configuration or prompt.
_API_NAMES = """
arguments audio best_of budget_tokens cache_control call_id content data detail dimensions effort
enum file file_data file_id filename format frequency_penalty function function_call functions
guided_json id image image_url images include include_usage input input_audio instructions items
json_schema logit_bias logprobs max_completion_tokens max_new_tokens max_output_tokens max_tokens
max_tool_calls messages metadata min_p min_tokens modalities model n name options
parallel_tool_calls parameters prediction presence_penalty previous_response_id prompt
prompt_cache_key properties reasoning reasoning_content reasoning_effort refusal
repetition_penalty required response_format role safety_identifier schema seed service_tier stop
store stream stream_options strict suffix summary system temperature text thinking tool_call_id
tool_calls tool_choice tools top_k top_logprobs top_p truncation type url user verbosity voice
web_search_options
"""
_KNOWN_NAMES = frozenset(_API_NAMES.split())
# `temperature`, `messages[0].content`, `messages.0.content`
_PARAMETER = re.compile(r"[A-Za-z_]\w{0,39}(?:\.\w{1,40}|\[\d{1,6}\]){0,8}", re.ASCII)
_NUMBER = re.compile(r"\d{1,6}")
# OpenAI's and Anthropic's status for a prompt that is too long. Clients check for it.
_TOO_LONG_STATUS = 400


class ParametersRefused(ModelRefused):
    """The model's server rejected parameters as unknown.

    Attributes:
        names: the unknown parameters that Evenflow may leave out or rename.
    """

    names: frozenset[str] = frozenset()


def refusal(
    server_message: str,
    *,
    status: int,
    code: str | None = None,
    param: str | None = None,
    type: str | None = None,  # noqa: A002 - its name in the protocol
    unknown: frozenset[str] = frozenset(),
    sent_names: frozenset[str] = frozenset(),
) -> ModelRefused:
    """The error for a message that the model's server refuses.

    Args:
        server_message: the server's words.
        status: 400, 413 or 422.
        code, param, type: the server's own, as it sent them.
        unknown: the `names` of `ParametersRefused`.
        sent: the names of the parameters in the request.
    """
    if code not in _WORDS:
        code = TOO_LONG if _ABOUT_LENGTH.search(server_message) else REFUSED
    words = _TOOLS if code == REFUSED and _ABOUT_TOOLS.search(server_message) else _WORDS[code]
    if param is not None and not _is_parameter(param, sent_names):
        param = None
    facts = _FACTS.findall(server_message)[:_MOST_FACTS]
    if code == TOO_LONG:
        facts, status = (
            [ContextLengths.stated_in(server_message).in_words_of_openai()],
            _TOO_LONG_STATUS,
        )
    kind = ParametersRefused if unknown else ModelRefused
    error = kind(
        f"the model refused the message: {words}"
        + (f" (param: {param})" if param else "")
        + (f" ({', '.join(facts)})" if facts else ""),
        code=code,
        param=param,
        status=status,
        type=type if type in get_args(ErrorType) else InvalidRequest.type,
    )
    if isinstance(error, ParametersRefused):
        error.names = unknown
    return error


def _is_parameter(param: str, sent_names: frozenset[str]) -> bool:
    """Whether a server's word is the path of a parameter, in names of the API or the request."""
    if not _PARAMETER.fullmatch(param):
        return False
    first, *later_names = re.split(r"[.\[]", param.replace("]", ""))
    return (first in sent_names or first in _KNOWN_NAMES) and all(
        name in _KNOWN_NAMES or _NUMBER.fullmatch(name) for name in later_names
    )
