"""What the chaos model answers to a question: a text that belongs to this question alone, so
that every byte can be checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

_DIRECTIVE = re.compile(r"#chaos key=(\S+) tokens=(\d+) gap_ms=(\d+) size=(\d+)")
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
    """

    key: str
    tokens: int
    gap_ms: int
    size: int = 12

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
        return cls(key, *map(int, numbers))

    @property
    def question(self) -> str:
        """What to send for it."""
        return f"#chaos key={self.key} tokens={self.tokens} gap_ms={self.gap_ms} size={self.size}"

    @property
    def seconds(self) -> float:
        """How long the model takes."""
        return self.tokens * self.gap_ms / 1000

    def words(self) -> list[str]:
        """The tokens. Each says its number, so that a text that is wrong shows where."""
        random = Random(self.key)
        return [
            f"{number}:{random.choice(_WORDS)}".ljust(self.size - 1, "·") + " "
            for number in range(self.tokens)
        ]

    def text(self) -> str:
        """The whole answer."""
        return "".join(self.words())
