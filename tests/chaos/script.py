"""What the chaos model answers to a question: a text that belongs to this question alone, so
that every byte can be checked. Before it may come reasoning, and after it the call of a tool.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from random import Random
from typing import Any

TOOL = "look_up"
"""What is called: a tool with one argument, `query`."""

_DIRECTIVE = re.compile(
    r"#chaos key=(\S+) tokens=(\d+) gap_ms=(\d+) size=(\d+)(?: reasoning=(\d+) call=(\d+))?"
)
_WORDS = (
    "evenly",
    "Größe",
    "流れ",
    "cursor",
    '"quoted"',
    "back\\slash",
    "line\nbreak",
    "🙂",
    "every",
    "reader,",
    "tab\t",
    "lost.",
)


@dataclass(frozen=True, slots=True)
class Script:
    """An answer of `tokens` tokens, one every `gap_ms`, each of `size` characters or a few more;
    `key` chooses the words.

    Args:
        reasoning: how many tokens of it come before the text.
        call: how many pieces of arguments a call behind the text has; with none there is no call.
    """

    key: str
    tokens: int
    gap_ms: int
    size: int = 12
    reasoning: int = 0
    call: int = 0

    @classmethod
    def asked_by(cls, question: str) -> Script:
        """The script that a question asks for.

        Raises:
            ValueError: it asks for none.
        """
        found = _DIRECTIVE.search(question)
        if found is None:
            raise ValueError(f"not a question of the chaos harness: {question[:100]!r}")
        key, *numbers = found.groups()
        return cls(key, *(int(number) for number in numbers if number is not None))

    @property
    def question(self) -> str:
        """What to send for it."""
        asked = f"#chaos key={self.key} tokens={self.tokens} gap_ms={self.gap_ms} size={self.size}"
        if self.reasoning or self.call:
            asked += f" reasoning={self.reasoning} call={self.call}"
        return asked

    @property
    def seconds(self) -> float:
        """How long the model takes."""
        return (self.reasoning + self.tokens + self.call) * self.gap_ms / 1000

    @property
    def call_id(self) -> str:
        """Of its call."""
        return f"call_{self.key}"

    def words(self) -> list[str]:
        """The tokens of the text. Each says its number, so that a wrong text shows where."""
        return self._words(self.key, self.tokens)

    def text(self) -> str:
        """The whole text."""
        return "".join(self.words())

    def thoughts(self) -> list[str]:
        """The tokens of the reasoning."""
        return self._words(f"{self.key} reasons", self.reasoning)

    def arguments(self) -> list[str]:
        """The pieces of the call's arguments, which are JSON."""
        if not self.call:
            return []
        query = "".join(self._words(f"{self.key} calls", self.call))
        whole = json.dumps({"query": query}, ensure_ascii=False)
        length = -(-len(whole) // self.call)
        return [whole[at : at + length] for at in range(0, len(whole), length)]

    def deltas(self, prefix: str = "") -> list[dict[str, Any]] | None:
        """What the model streams, as deltas of OpenAI's API.

        Args:
            prefix: the beginning of the text, which is known already. None is returned where the
                answer doesn't begin with it.
        """
        tokens = _behind(prefix, self.words())
        if tokens is None or (prefix and self.reasoning):
            return None
        return [
            *({"reasoning_content": token} for token in self.thoughts()),
            *({"content": token} for token in tokens),
            *self._call_deltas(),
        ]

    def _call_deltas(self) -> list[dict[str, Any]]:
        pieces: list[dict[str, Any]] = [
            {"function": {"arguments": piece}} for piece in self.arguments()
        ]
        if pieces:
            pieces[0]["function"]["name"] = TOOL
            pieces[0] |= {"id": self.call_id, "type": "function"}
        return [{"tool_calls": [{"index": 0} | piece]} for piece in pieces]

    def _words(self, seed: str, count: int) -> list[str]:
        random = Random(seed)
        return [
            f"{number}:{random.choice(_WORDS)}".ljust(self.size - 1, "·") + " "
            for number in range(count)
        ]


def _behind(prefix: str, tokens: list[str]) -> list[str] | None:
    """The tokens that follow `prefix`, the first of them cut where it ends; None when they don't
    begin with it.
    """
    text = "".join(tokens)
    if not text.startswith(prefix):
        return None
    said = 0
    for number, token in enumerate(tokens):
        if said + len(token) > len(prefix):
            return [token[len(prefix) - said :], *tokens[number + 1 :]]
        said += len(token)
    return []
