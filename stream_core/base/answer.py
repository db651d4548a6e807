"""Facts about an answer: its end, its token usage, and the origin of its entries."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from pydantic.dataclasses import dataclass

Transport = Literal["websocket", "sse", "poll", "http"]
"""The transport of a reader. `poll`: a reader each. `http`: the answer in one piece."""


Via = Literal["owner", "peer", "store"]
"""Where a node has an answer's entries from. `owner`: it generates them itself. `peer`: it copies
them from the owner. `store`: it reads them from the store."""


HistoryBound = Literal["server", "model"]
"""The bound of the model's conversation: EVENFLOW_HISTORY_BYTES, or the model's context."""


FinishReason = Literal[
    "stop", "length", "cancelled", "abandoned", "tool_calls", "content_filter", "budget"
]
"""How a response ended. `budget`: one of its tenant's budgets was used up. `abandoned`: it had no
reader for the grace period, so the model was stopped. `tool_calls`: it has calls whose results did
not come in time, or that the client of a request runs itself."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the model counted. Cached and reasoning tokens are None if it doesn't."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def plus(self, other_usage: Usage) -> Usage:
        """The sum of two calls' tokens. A count that one of them lacks is unknown."""
        common_names = self.counted().keys() & other_usage.counted().keys()
        return Usage(
            **{name: getattr(self, name) + getattr(other_usage, name) for name in common_names}
        )

    def counted(self) -> dict[str, int]:
        """The counts that are not None, by name."""
        return {
            name: count
            for name, count in zip(_COUNTS, self.counts, strict=True)
            if count is not None
        }

    @property
    def counts(self) -> tuple[int, int, int | None, int | None]:
        """All counts, in their order."""
        return self.prompt_tokens, self.completion_tokens, self.cached_tokens, self.reasoning_tokens


_COUNTS = tuple(each.name for each in fields(Usage))
