"""How long an answer may be, by whatever name a request says it, and what would multiply its cost.

Servers of OpenAI's kind have many names for it (llama.cpp `n_predict`, Ollama `num_predict`, TGI
`max_new_tokens`), and each reads those that it knows. What a budget reserves must be what the
server reads, so there is one name on the way to it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from evenflow.stream_core.policy.agents import LONGEST_ANSWER
from evenflow.stream_core.protocol.errors import InvalidRequest

# Names as `_plain` has them. Lengths of prompts and of thoughts are none of the answer.
_LENGTH = re.compile(
    r"(?:auto)?max(?:imum)?(?!input|prompt|context|history|think|reason|image)[a-z]*?"
    r"(?:tokens?(?:count|limit|to(?:sample|generate))?|len(?:gth)?|predict)"
    r"|(?:n|num)(?:new|output|completion)?(?:predict|tokens?(?:to(?:predict|generate))?)"
    r"|(?:(?:request)?output(?:seq(?:uence)?)?|completion|response|gen(?:eration)?)"
    r"(?:len(?:gth)?|tokens?)"
    r"|tokens?(?:to(?:predict|generate)|limit)|genamt"
)
_LEAST = re.compile(r"min(?:imum)?[a-z]*?(?:tokens?|len(?:gth)?)")
# More answers than are given and counted, or another model than the one that is priced.
_MULTIPLYING = re.compile(
    r"bestof|(?:n|num|use)?beam(?:s|search|size|width)|candidatecount"
    r"|(?:n|num)(?:answers|candidates|choices|completions|generations|responses|samples)"
    r"|(?:n|num)(?:return)?sequences"
)
_OTHER_MODELS = ("models", "fallbacks")
# Objects that describe an answer, are data, or bound what of the answer is thought: their own
# `maxLength` or `max_tokens` is none of the answer's.
_NO_OPTIONS = re.compile(
    r"schema|json|format|function|structured|guided|grammar|metadata|bias|reason|think"
)
# Of objects and lists in a parameter, and of entries in each of them.
_MOST_LOOKED_AT = 64
_SEPARATORS = str.maketrans("", "", "_-. ")
_MOST_NAME = 100


def take_length(passed: dict[str, Any], named: Mapping[str, int | None]) -> int | None:
    """Take the longest answer out of the parameters that only the model's server reads.

    Args:
        passed: those parameters. Names of a length are removed.
        named: the protocol's own names, with what they have.

    Returns:
        The longest answer, in tokens. None: the request doesn't say.

    Raises:
        InvalidRequest: it is no length, two names have one, or the cost would be multiplied.
    """
    for name, value in passed.items():
        plain = _plain(name)
        _check_cost(name, plain, value)
        if isinstance(value, dict | list) and not _NO_OPTIONS.search(plain):
            _check_inside(name, value)
    lengths = {name: value for name, value in named.items() if value is not None}
    for name in [name for name in passed if _LENGTH.fullmatch(_plain(name))]:
        lengths[name] = _checked(name, passed.pop(name))
    if len(lengths) > 1:
        one, other = [*lengths][:2]
        raise InvalidRequest(
            f"{one} and {other[:_MOST_NAME]} mean the same: give one of them; nothing was "
            "generated",
            code="unsupported_value",
            param=one[:_MOST_NAME],
        )
    longest = next(iter(lengths.values()), None)
    if longest is not None:
        _check_least(passed, longest)
    return longest


def _plain(name: str) -> str:
    """A name without what differs between servers: `maxTokens` is `max_tokens`."""
    return name[:_MOST_NAME].translate(_SEPARATORS).lower()


def _checked(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return min(value, LONGEST_ANSWER)
    raise InvalidRequest(
        f"{name[:_MOST_NAME]} must be a whole number from 1; nothing was generated, leave it out "
        "for the model's own longest answer",
        code="invalid_field",
        param=name[:_MOST_NAME],
    )


def _check_cost(name: str, plain: str, value: Any) -> None:
    """Check that the model generates no more than what is given, and is the one that was named."""
    if plain in _OTHER_MODELS and value:
        raise _not_served(name, "`model` names the model")
    if _MULTIPLYING.fullmatch(plain) and (value is True or value not in (False, 0, 1)):
        raise _not_served(name, "answers that nobody is given would cost, too; send `n`")


def _check_inside(name: str, value: Any) -> None:
    """Check the objects in a parameter: some servers have their options in one."""
    for inner, found in _entries(value):
        path, plain = f"{name}.{inner}", _plain(inner)
        if _is_number(found) and _LENGTH.fullmatch(plain):
            raise _not_served(path, "send `max_tokens`")
        # Beside the messages it is counted.
        is_choices = plain == "n" and _is_number(found)
        _check_cost(path, "nchoices" if is_choices else plain, found)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of the objects in a value, the outer ones first."""
    waiting = deque([value])
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            return
        found = waiting.popleft()
        inner = found.values() if isinstance(found, dict) else found
        if isinstance(found, dict):
            yield from islice(found.items(), _MOST_LOOKED_AT)
        waiting += [
            each for each in islice(inner, _MOST_LOOKED_AT) if isinstance(each, dict | list)
        ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value.isdigit())


def _check_least(passed: Mapping[str, Any], longest: int) -> None:
    """Check that the answer need not be longer than it may be."""
    for name, least in passed.items():
        if isinstance(least, int) and least > longest and _LEAST.fullmatch(_plain(name)):
            raise InvalidRequest(
                f"{name[:_MOST_NAME]} must be at most {longest}, the longest answer; nothing was "
                "generated",
                code="invalid_field",
                param=name[:_MOST_NAME],
            )


def _not_served(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"{name[:_MOST_NAME]} is not served: {why}. Nothing was generated",
        code="unsupported_parameter",
        param=name[:_MOST_NAME],
    )
