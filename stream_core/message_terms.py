"""What a message says beside its text: how it is to be answered, how long that may take, and for whom."""

from __future__ import annotations

import json
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_INT64 = 2**63
# As one header of a request it must pass servers that take 8 KiB of them.
_MOST_METADATA_BYTES = 6_144

LONGEST_USER = 256


def metadata_header(metadata: dict[str, str]) -> str:
    """Metadata as JSON in printable ASCII."""
    return json.dumps(metadata, separators=(",", ":")).replace("\x7f", "\\u007f")


def _bounded(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata_header(metadata)) > _MOST_METADATA_BYTES:
        raise ValueError(f"must have at most {_MOST_METADATA_BYTES} bytes as JSON in ASCII")
    return metadata


Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
    AfterValidator(_bounded),
]
"""The application's own names and values. They go on to the model's server, and nothing here reads them."""

TimeoutMs = Annotated[int, Field(ge=1, le=86_400_000)]
User = Annotated[str, Field(min_length=1, max_length=LONGEST_USER)]


class MessageParams(BaseModel):
    """How a message is to be answered, by OpenAI's names; what is not given is the agent's, or the model's own."""

    model_config = ConfigDict(frozen=True, strict=True)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    stop: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=4)] | None = None
    seed: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None


class GivenParams(MessageParams):
    """The same as a client sends them. An unknown one is refused: a misspelt parameter would be ignored in silence."""

    model_config = ConfigDict(extra="forbid")

    def taken(self) -> MessageParams:
        """What they say."""
        return MessageParams(**self.model_dump())


class MessageTerms(BaseModel):
    """`timeout_ms`: the answer ends at that age at the latest. `user`: for whom it is, where the application says.

    `model`: the public name that was asked for; empty for the agent's, or the only one.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    params: MessageParams = MessageParams()
    timeout_ms: TimeoutMs | None = None
    metadata: Metadata = {}
    user: str = ""
    model: str = ""

    def to_text(self) -> str:
        """As kept on record; empty where nothing was said."""
        text = self.model_dump_json(exclude_defaults=True)
        return "" if text == "{}" else text

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The terms whose text this is. What a newer version wrote is left out."""
        return cls.model_validate_json(text) if text else cls()


NO_TERMS = MessageTerms()
"""Those of a message that says nothing but its text."""
