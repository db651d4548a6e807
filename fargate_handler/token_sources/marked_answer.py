"""Writes what a model gives as marked text."""

from __future__ import annotations

import secrets
from typing import Any, get_args

from fargate_handler.token_sources.port import ModelEnd
from stream_core.log.marked_text import ASIDES, MarkedTextWriter

_ENDS = get_args(ModelEnd)


class MarkedAnswer:
    """Marks the pieces from a model's server, and fills in what servers leave out of calls."""

    def __init__(self) -> None:
        self._writer = MarkedTextWriter()
        self._begun: dict[int, set[int]] = {}
        self._ended: set[int] = set()

    def text(self, text: str, choice: int = 0) -> str:
        """More of the answer itself."""
        return self._writer.text(text, choice)

    def aside(self, name: str, text: str, choice: int = 0) -> str:
        """More of what is beside the answer. `name` is one of `ASIDES`."""
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
        """More of a call. Servers may repeat its name and id, or send it whole, without an index.

        Raises:
            ValueError, TypeError: it is not a fragment of a call.
        """
        begun = self._begun.setdefault(choice, set())
        if index is None:
            index = len(begun) if name else len(begun) - 1
        if not isinstance(index, int) or not all(
            isinstance(said, str) for said in (call_id, name, arguments)
        ):
            raise TypeError("this is not a fragment of a call")
        if index not in begun and not call_id:
            # The tool's answer needs one.
            call_id = f"call_{secrets.token_hex(12)}"
        marked = self._writer.call(index, arguments, call_id, name, choice, kind)
        begun.add(index)
        return marked

    def choice(self, choice: dict[str, Any], index: int) -> str:
        """Everything that a choice in one of OpenAI's chunks adds. `index` is its number.

        Raises:
            ValueError, TypeError, AttributeError: it is not a choice.
        """
        delta = choice.get("delta") or {}
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
    """A delta's text under this name. Empty if the server left it out, or sent null.

    Raises:
        TypeError: it is not text.
    """
    text = delta.get(name)
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{name} is not text")
    return text or ""


def asides(delta: dict[str, Any]) -> dict[str, str]:
    """A delta's texts beside its content, by name. Some servers send reasoning under both names."""
    said = {name: text for name in ASIDES if isinstance(text := delta.get(name), str) and text}
    if said.get("reasoning_content") == said.get("reasoning"):
        said.pop("reasoning", None)
    return said
