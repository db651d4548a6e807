"""What clients read directly and through Evenflow, and where the two may differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from evenflow.stream_core.protocols.anthropic.encoder import INVALID_JSON
from tests.differential.clients import Client
from tests.differential.reading import Reading
from tests.differential.streams import UpstreamStream
from tests.differential.through_evenflow import Passed, passed_on

_TEXTS = ("text", "reasoning", "refusal", "second")
_KNOWN_ENDS = ("stop", "length", "tool_calls", "content_filter")


@dataclass(frozen=True)
class Wanted:
    """A difference that is wanted.

    Args:
        fields: what may differ.
        reason: why.
        client: the name of the one client for which it is. Empty: for all.
    """

    fields: frozenset[str]
    reason: str
    client: str = ""


def _wanted(*fields: str, reason: str, client: str = "") -> Wanted:
    return Wanted(frozenset(fields), reason, client)


WANTED = {
    "broken off": _wanted(
        "error", "finish", "usage",
        reason="neither a finish reason nor [DONE] came: half an answer is an error, which the "
        "clients can't tell from a whole one",
    ),
    "cut": _wanted(
        "error", "finish", "usage", "calls", "accumulated",
        reason="the body is cut at any byte: as `broken off`; an event that is whole counts, also "
        "without the empty line behind it",
    ),
    "no finish reason": _wanted(
        "finish", reason="[DONE] came: it is `stop`, or `tool_calls` where there are calls"
    ),
    "finish reason of its own": _wanted(
        "finish", reason="clients of other protocols know no such word"
    ),
    "finish reason with its cause": _wanted(
        "finish", client="litellm", reason="it knows no such word, and takes it for `stop`"
    ),
    "an end without an answer": _wanted(
        "error", reason="only [DONE] came: that is no answer, which the clients take it for"
    ),
    "the last event has no end": _wanted(
        "error", "finish", "usage", reason="[DONE] counts without the empty line behind it"
    ),
    "usage that is no count": _wanted(
        "usage", reason="what is no count is left out, or made one: clients' types have integers"
    ),
    "reasoning only in the total": _wanted(
        "usage", reason="it is part of the completion, as in OpenAI's API: budgets charge it"
    ),
    "content that is no string": _wanted(
        "text", "accumulated", reason="texts in parts are read; JavaScript has [object Object]"
    ),
    "arguments that are no string": _wanted(
        "calls", "accumulated", reason="an object becomes its JSON; JavaScript has [object Object]"
    ),
    "calls counted: none": _wanted(
        "calls", "accumulated", reason="calls without an index are told apart by their names"
    ),
    "calls counted: all 0": _wanted(
        "calls", "accumulated",
        reason="another id with a name begins another call; the clients join the two",
    ),
    "calls counted: from 1": _wanted(
        "error", "accumulated",
        reason="the clients' helpers count on an index 0, and fail where a role and an end came",
    ),
    "a call without a name": _wanted(
        "error", "calls", "finish", "usage", "accumulated",
        reason="nobody can run a call without a name: an error behind all that came",
    ),
    "reasoning as Copilot sends it": _wanted(
        "reasoning", client="litellm",
        reason="it drops a chunk that has it alone, unless that has the role, too",
    ),
    "byte order mark": _wanted(
        *_TEXTS, "calls", "finish", "usage", "accumulated",
        reason="OpenAI's client for Python drops the first event",
    ),
}  # fmt: skip
"""By the traits of streams."""

WANTED_OF_CLIENT = {
    "litellm": _wanted(
        "refusal", reason="it drops a chunk that has a refusal alone, unless that has the role, too"
    )
}
"""By the names of clients."""


def differences(client: Client, stream: UpstreamStream, passed: Passed) -> list[str]:
    """What a client reads otherwise through Evenflow, beyond what is wanted."""
    if client.name == "litellm" and stream.choices > 1:
        return []  # it takes the end of any choice for the answer's
    direct, through = client.read(stream.body), client.read(passed.body)
    found = readings_differ(client.name, stream, direct, through)
    if client.name == "litellm":
        return found  # the other forms are compared with what clients of OpenAI have
    if not through.refusal:  # elsewhere it is text
        texts = {name for name, text in passed.texts.items() if text != whole(through.text)}
        found += [f"{client.name}: the text of {name}: {passed.texts[name]!r}" for name in texts]
    called = [call[2] for call in through.calls]
    inputs = [_input_of(arguments) for arguments in called]
    for form, calls in passed.calls.items():
        if form == "messages" and through.error is not None:
            continue  # the input of a call that was cut is not told
        wanted = inputs if form == "messages" else called
        if sorted(wanted) != sorted(calls):
            found.append(f"calls of {form}: {calls}, wanted {wanted}")
    return found


def _input_of(arguments: str) -> str:
    """A call's arguments as Anthropic's clients have them: an object always."""
    try:
        given = orjson.loads(arguments.strip() or "{}")
    except orjson.JSONDecodeError:
        given = arguments
    if given is not None and not isinstance(given, dict):
        return orjson.dumps({INVALID_JSON: arguments}).decode()
    return arguments.strip() if given else "{}"


def readings_differ(
    name: str, stream: UpstreamStream, direct: Reading, through: Reading
) -> list[str]:
    """The fields in which two readings of a stream differ, beyond what is wanted."""
    differing = [WANTED[trait] for trait in stream.traits if WANTED[trait].client in ("", name)]
    wanted = {field for each in differing for field in each.fields}
    if name in WANTED_OF_CLIENT:
        wanted |= WANTED_OF_CLIENT[name].fields
    return [
        f"{name}: {field}: directly {_shown(direct, field)}, through {_shown(through, field)}"
        for field in ("error", *_TEXTS, "calls", "finish", "usage", "accumulated")
        if field not in wanted and not _is_kept(field, direct, through, stream)
    ]


def compared(clients: Sequence[Client], stream: UpstreamStream, seen: Counter[str]) -> list[str]:
    """The differences of all clients. Notes in `seen` what was compared."""
    passed = passed_on(stream.pieces, stream.choices)
    seen["streams"] += 1
    seen.update(stream.traits or ["nothing odd"])
    return [each for client in clients for each in differences(client, stream, passed)]


def whole(text: str) -> str:
    """The text with surrogate pairs joined. Half a pair is U+FFFD: no protocol can carry it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_kept(field: str, direct: Reading, through: Reading, stream: UpstreamStream) -> bool:
    if field == "error":
        return through.error is None or direct.error is not None
    one, other = getattr(direct, field), getattr(through, field)
    is_part = direct.error is not None or "cut" in stream.traits
    if field in _TEXTS:
        begun = whole(one).rstrip("\ufffd")  # the other half may follow
        return whole(other).startswith(begun) if is_part else whole(other) == whole(one)
    return is_part or through.error is not None or _is_equal(field, one, other)


def _is_equal(field: str, one: Any, other: Any) -> bool:
    if field == "calls":
        return _calls(one) == _calls(other) and _ids_are_kept(one, other)
    if field == "finish":
        meant = str(one).partition(":")[0]
        return meant not in _KNOWN_ENDS or meant == other
    if field == "usage":
        return one is None or one == other
    return one is None or [whole(text) for text in one] == other


def _calls(calls: list[list[str]]) -> list[list[str]]:
    return [[whole(name), whole(arguments)] for _, name, arguments in calls]


def _ids_are_kept(direct: list[list[str]], through: list[list[str]]) -> bool:
    """Calls without an id get one."""
    ids = zip((call[0] for call in direct), (call[0] for call in through), strict=True)
    return all(one in ("", other) for one, other in ids)


def _shown(reading: Reading, field: str) -> Any:
    return repr(getattr(reading, field))[:300]
