"""What a model gives, as the marked text of its answer."""

from __future__ import annotations

import secrets
from typing import Any, get_args

from fargate_handler.token_sources.port import ModelEnd
from stream_core.log.marked_text import ASIDES, MarkedTextWriter

_ENDS = get_args(ModelEnd)


class MarkedAnswer:
    """Marks the pieces that a model's server sends. What servers leave out of calls is filled in."""

    def __init__(self) -> None:
        self._writer = MarkedTextWriter()
        self._begun: dict[int, set[int]] = {}
        self._ended: set[int] = set()

    def text(self, text: str, choice: int = 0) -> str:
        """More of what the model says."""
        return self._writer.text(text, choice)

    def aside(self, name: str, text: str, choice: int = 0) -> str:
        """More of what it says beside that; `name` is one of `ASIDES`."""
        return self._writer.aside(name, text, choice)

    def fragment(
        self,
        index: int | None,
        call_id: str,
        name: str,
        arguments: str,
        choice: int = 0,
        kind: str = "function",
    ) -> str:
        """More of a call. Some servers repeat its name and its id, or don't count, but send each call with its name, once.

        Raises:
            ValueError, TypeError: it is no fragment of a call.
        """
        begun = self._begun.setdefault(choice, set())
        if index is None:
            index = len(begun) if name else len(begun) - 1
        if not isinstance(index, int) or not all(isinstance(said, str) for said in (call_id, name, arguments)):
            raise TypeError("this is no fragment of a call")
        if index not in begun and not call_id:
            # Whoever answers the call needs one.
            call_id = f"call_{secrets.token_hex(12)}"
        marked = self._writer.call(index, arguments, call_id, name, choice, kind)
        begun.add(index)
        return marked

    def choice(self, choice: dict[str, Any]) -> str:
        """All that a choice of OpenAI's chunks adds.

        Raises:
            ValueError, TypeError, AttributeError: it is none.
        """
        index, delta = choice.get("index") or 0, choice.get("delta") or {}
        if not isinstance(index, int):
            raise TypeError("this is no number of a choice")
        parts = [self.aside(name, said, index) for name, said in asides(delta).items()]
        parts.append(self.text(text_of(delta, "content"), index))
        parts += [self._called(fragment, index) for fragment in delta.get("tool_calls") or []]
        if logprobs := choice.get("logprobs"):
            parts.append(self._writer.logprobs(logprobs, index))
        if index and (reason := choice.get("finish_reason")) and index not in self._ended:
            self._ended.add(index)
            parts.append(self._writer.end(reason if reason in _ENDS else "stop", index))
        return "".join(parts)

    def _called(self, fragment: dict[str, Any], choice: int) -> str:
        kind = "custom" if fragment.get("custom") else "function"
        called = fragment.get(kind) or {}
        arguments = called.get("input" if kind == "custom" else "arguments") or ""
        call_id, name = fragment.get("id") or "", called.get("name") or ""
        return self.fragment(fragment.get("index"), call_id, name, arguments, choice, kind)


def text_of(delta: dict[str, Any], name: str) -> str:
    """What a delta says under this name; servers set to null, or leave out, where that is nothing.

    Raises:
        TypeError: it is no text.
    """
    text = delta.get(name)
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{name} is not text")
    return text or ""


def asides(delta: dict[str, Any]) -> dict[str, str]:
    """What a delta says beside its content, by name. Some servers send their reasoning under both of its names."""
    said = {name: text for name in ASIDES if isinstance(text := delta.get(name), str) and text}
    if said.get("reasoning_content") == said.get("reasoning"):
        said.pop("reasoning", None)
    return said
