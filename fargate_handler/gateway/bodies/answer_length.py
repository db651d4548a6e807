"""The longest answer of a request, under any parameter name, and what would multiply its cost.

OpenAI-compatible servers have many names for it (llama.cpp `n_predict`, Ollama `num_predict`, TGI
`max_new_tokens`), and each reads those that it knows. What a budget reserves must be what the
server reads, so all names become one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from evenflow.stream_core.base.agents import LONGEST_ANSWER
from evenflow.stream_core.base.errors import InvalidRequest

# Names as `_normalized` returns them. Lengths of prompts and of reasoning are not the answer's.
_LENGTH = re.compile(
    r"(?:auto)?max(?:imum)?(?!input|prompt|context|history|think|reason|image)[a-z]*?"
    r"(?:tokens?(?:count|limit|to(?:sample|generate))?|len(?:gth)?|predict)"
    r"|(?:n|num)(?:new|output|completion)?(?:predict|tokens?(?:to(?:predict|generate))?)"
    r"|(?:(?:request)?output(?:seq(?:uence)?)?|completion|response|gen(?:eration)?)"
    r"(?:len(?:gth)?|tokens?)"
    r"|tokens?(?:to(?:predict|generate)|limit)|genamt"
)
_LEAST = re.compile(r"min(?:imum)?[a-z]*?(?:tokens?|len(?:gth)?)")
# More answers than are delivered and counted.
_MULTIPLYING = re.compile(
    r"bestof|(?:n|num|use)?beam(?:s|search|size|width)|candidatecount"
    r"|(?:n|num)(?:answers|candidates|choices|completions|generations|responses|samples)"
    r"|(?:n|num)(?:return)?sequences"
)
_OTHER_MODELS = ("models", "fallbacks")
# Objects with a schema, data, or options of reasoning: a `maxLength` or `max_tokens` in them is not
# the answer's.
_NO_OPTIONS = re.compile(
    r"schema|json|format|function|structured|guided|grammar|metadata|bias|reason|think"
)
# Objects and lists that are checked in a parameter, and entries that are checked in each of them.
_MAX_CHECKED = 64
_SEPARATORS = str.maketrans("", "", "_-. ")
_MAX_NAME = 100


def take_length(passed: dict[str, Any], named: Mapping[str, int | None]) -> int | None:
    """Remove the longest answer from the parameters that are passed to the model's server.

    Args:
        passed: those parameters. Names of a length are removed.
        named: the values of the protocol's own names.

    Returns:
        The longest answer, in tokens. None: the request has none.

    Raises:
        InvalidRequest: a length is invalid, two names have one, or the cost would be multiplied.
    """
    for name, value in passed.items():
        normalized = _normalized(name)
        _check_cost(name, normalized, value)
        if isinstance(value, dict | list) and not _NO_OPTIONS.search(normalized):
            _check_inside(name, value)
    lengths = {name: value for name, value in named.items() if value is not None}
    for name in [name for name in passed if _LENGTH.fullmatch(_normalized(name))]:
        lengths[name] = _checked(name, passed.pop(name))
    if len(lengths) > 1:
        one, other = [*lengths][:2]
        raise InvalidRequest(
            f"{one} and {other[:_MAX_NAME]} mean the same: give one of them; nothing was generated",
            code="unsupported_value",
            param=one[:_MAX_NAME],
        )
    longest = next(iter(lengths.values()), None)
    if longest is not None:
        _check_least(passed, longest)
    return longest


def _normalized(name: str) -> str:
    """A name without separators and capitals: `maxTokens` equals `max_tokens`."""
    return name[:_MAX_NAME].translate(_SEPARATORS).lower()


def _checked(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return min(value, LONGEST_ANSWER)
    raise InvalidRequest(
        f"{name[:_MAX_NAME]} must be a whole number from 1; nothing was generated, leave it out "
        "for the model's own longest answer",
        code="invalid_field",
        param=name[:_MAX_NAME],
    )


def _check_cost(name: str, normalized: str, value: Any) -> None:
    """Check that a parameter neither multiplies the answers nor names other models."""
    if normalized in _OTHER_MODELS and value:
        raise _not_served(name, "`model` names the model")
    if _MULTIPLYING.fullmatch(normalized) and (value is True or value not in (False, 0, 1)):
        raise _not_served(name, "answers that are not delivered would cost, too; send `n`")


def _check_inside(name: str, value: Any) -> None:
    """Check the objects in a parameter: some servers read options from one."""
    for inner, found in _entries(value):
        path, normalized = f"{name}.{inner}", _normalized(inner)
        if _is_number(found) and _LENGTH.fullmatch(normalized):
            raise _not_served(path, "send `max_tokens`")
        # At the top level `n` is a known parameter, and counted.
        is_choices = normalized == "n" and _is_number(found)
        _check_cost(path, "nchoices" if is_choices else normalized, found)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of the objects in a value, the outer ones first."""
    waiting = deque([value])
    for _ in range(_MAX_CHECKED):
        if not waiting:
            return
        found = waiting.popleft()
        inner = found.values() if isinstance(found, dict) else found
        if isinstance(found, dict):
            yield from islice(found.items(), _MAX_CHECKED)
        waiting += [each for each in islice(inner, _MAX_CHECKED) if isinstance(each, dict | list)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value.isdigit())


def _check_least(passed: Mapping[str, Any], longest: int) -> None:
    """Check that no shortest length exceeds the longest one."""
    for name, least in passed.items():
        if isinstance(least, int) and least > longest and _LEAST.fullmatch(_normalized(name)):
            raise InvalidRequest(
                f"{name[:_MAX_NAME]} must be at most {longest}, the longest answer; nothing was "
                "generated",
                code="invalid_field",
                param=name[:_MAX_NAME],
            )


def _not_served(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"{name[:_MAX_NAME]} is not served: {why}. Nothing was generated",
        code="unsupported_parameter",
        param=name[:_MAX_NAME],
    )
