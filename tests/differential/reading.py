"""What a client makes of an answer. It needs no package: other environments import it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


@dataclass
class Reading:
    """An answer as it was read.

    Args:
        second: the text of the second choice.
        calls: the id, the name and the arguments of each.
        usage: the tokens of the prompt and of the answer.
        accumulated: text and arguments, as the client's own helper adds them up. None: it can't.
        error: what reading ended with. None: it came to the end.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    second: str = ""
    calls: list[list[str]] = field(default_factory=list)
    finish: str | None = None
    usage: list[int] | None = None
    accumulated: list[str] | None = None
    error: str | None = None

    def to_object(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return asdict(self)


def read_chunks(chunks: Iterable[Any]) -> Reading:
    """Add up the objects of a client in Python, as applications do."""
    reading = Reading()
    calls: dict[Any, list[str]] = {}
    try:
        for chunk in chunks:
            if chunk is not None:
                _add(reading, calls, chunk)
    except Exception as error:  # whatever the client or its types raise
        reading.error = f"{type(error).__name__}: {error}"[:200]
    reading.calls = [calls[key] for key in sorted(calls, key=lambda key: (key is None, key or 0))]
    return reading


def _add(reading: Reading, calls: dict[Any, list[str]], chunk: Any) -> None:
    usage = getattr(chunk, "usage", None)
    counted: list[Any] = [
        getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")
    ]
    if all(isinstance(count, int | float) for count in counted):
        reading.usage = counted
    for choice in getattr(chunk, "choices", None) or ():
        delta = getattr(choice, "delta", None)
        if choice.index == 1:
            reading.second += getattr(delta, "content", None) or ""
        if choice.index or delta is None:
            continue
        reading.text += delta.content or ""
        reading.refusal += getattr(delta, "refusal", None) or ""
        thoughts = [getattr(delta, name, None) for name in _REASONING]
        reading.reasoning += next((thought for thought in thoughts if thought), "")
        for fragment in delta.tool_calls or ():
            call = calls.setdefault(fragment.index, ["", "", ""])
            function = fragment.function
            call[0] = call[0] or str(fragment.id or "")
            call[1] = call[1] or (getattr(function, "name", None) or "")
            call[2] += getattr(function, "arguments", None) or ""
    for choice in getattr(chunk, "choices", None) or ():
        if not choice.index:
            reading.finish = choice.finish_reason or reading.finish
