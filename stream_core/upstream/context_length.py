"""The error for a prompt that is too long, in the words that clients of each API expect."""

from __future__ import annotations

import re
from typing import NamedTuple

TOO_LONG = "context_length_exceeded"
"""The code of this error."""

# Not the digits of an address, a version or a name.
_NUMBER = r"(?<![\w.])(\d{1,9})(?!\w|\.\w)"
_NUMBERS = re.compile(_NUMBER)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_MOST = re.compile(
    r"(?:context[ _](?:length|size|window)|limit|maximum|allowed|<=)\D{0,40}?" + _NUMBER + "|"
    # "9001 tokens > 8192 maximum", "a model with 32768 maximum context length"
    + _NUMBER + r"(?: tokens)? (?:maximum|limit)",
    re.IGNORECASE,
)  # fmt: skip


class ContextLengths(NamedTuple):
    """The tokens in such an error: of the request, and the model's maximum. None: unknown."""

    requested: int | None
    most: int | None

    @classmethod
    def stated_in(cls, words: str) -> ContextLengths:
        """Read the lengths from the words of any server's error."""
        words = _THOUSANDS.sub("", words)
        if (found := _MOST.search(words)) is None:
            return cls(None, None)
        most = int(found[1] or found[2])
        longest = max(map(int, _NUMBERS.findall(words)))
        return cls(longest if longest > most else None, most)

    def in_words_of_openai(self) -> str:
        """The fact in OpenAI's words. Clients look for "maximum context length is"."""
        if self.most is None:
            return "This model's maximum context length is exceeded"
        fact = f"This model's maximum context length is {self.most} tokens"
        return fact if self.requested is None else f"{fact}, you requested {self.requested} tokens"

    def in_words_of_anthropic(self) -> str:
        """The message in Anthropic's words. Clients look for "prompt is too long:"."""
        if self.most is None:
            return "prompt is too long: it exceeds the context of the model"
        if self.requested is None:
            return f"prompt is too long: the maximum is {self.most} tokens"
        return f"prompt is too long: {self.requested} tokens > {self.most} maximum"
