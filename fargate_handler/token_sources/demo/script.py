"""The script of the demo model for a message: tokens, timing, failures. A seed repeats it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from random import Random
from typing import TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenflow.fargate_handler.token_sources.port import ModelEnd
from evenflow.stream_core.base.errors import ModelRefused, UpstreamFailed
from evenflow.stream_core.log.entries import MOST_CALLS, Content, Part

_TOKEN = re.compile(r"\s*\w{1,7}|\s*[^\w\s]|\s+")
_VOCABULARY = (
    " evenly", " the", " tokens", " of", " a", " model", " reach", " every", " reader", ",", " one",
    " after", " another", ".", " Größe", " 流れ", " cursor", " log", " index", " and", " nothing",
    " is", " lost", "\n", ' "quoted"', " back\\slash",
)  # fmt: skip

# The timing of a real model: 20–80 ms between tokens, at times a burst, seldom a stall.
_BURST_CHANCE, _BURST_TOKENS, _BURST_GAP_MS = 0.02, (5, 15), 2.0
_STALL_CHANCE, _STALL_MS = 0.01, (150.0, 400.0)


class Directives(BaseModel):
    """The directives of a message that begins with `#demo`: `#demo tokens=200 gap_ms=50 seed=7`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int = Field(100, ge=0, le=100_000)
    seed: int = 1
    first_token_ms: float = Field(10, ge=0, le=600_000)
    gap_ms: float = Field(50, ge=0, le=600_000)
    jitter_ms: float = Field(0, ge=0, le=600_000)
    bursty: bool = False
    fail_after: int | None = Field(None, ge=0)
    fail_attempts: int = Field(1, ge=0)
    hang_after: int | None = Field(None, ge=0)
    refuse: bool = False
    reasoning: int = Field(0, ge=0, le=100_000)
    searches: int = Field(0, ge=0, le=MOST_CALLS // 2)
    sources: int = Field(0, ge=0, le=100)
    calls: int = Field(0, ge=0, le=MOST_CALLS // 2)


_NO_DIRECTIVES = Directives()


@dataclass(frozen=True, slots=True)
class Script:
    """The content of one attempt, and its timing.

    Args:
        tokens: the text.
        parts_before: the parts before the text: reasoning, and calls of the model's own tool.
        parts_after: the parts after the text: sources, and calls of the request's tools.
        stops_after: the number of tokens and parts after which the model ends (None: all). It fails
            with `failure`, hangs, or has finished for this `reason`.
        directives: the directives of the message.
    """

    tokens: list[str]
    first_token_ms: float
    gaps_ms: Iterator[float]
    stops_after: int | None = None
    failure: UpstreamFailed | None = None
    hangs: bool = False
    reason: ModelEnd = "stop"
    parts_before: Sequence[Part] = ()
    parts_after: Sequence[Part] = ()
    directives: Directives = _NO_DIRECTIVES

    @property
    def contents(self) -> list[Content]:
        """All tokens and parts, in their order."""
        return [*self.parts_before, *self.tokens, *self.parts_after]

    def bounded(self, longest: int | None, stops: Sequence[str]) -> Script:
        """The script cut to `longest` tokens (None: all), or before the first of `stops`."""
        if not stops and (longest is None or longest >= len(self.tokens)):
            return self
        tokens = self.tokens[:longest]
        text = "".join(tokens)
        stop_places = [place for stop in stops if (place := text.find(stop)) >= 0]
        if not stop_places and len(tokens) == len(self.tokens):
            return self
        bounded = replace(self, tokens=tokens, parts_after=(), reason="length")
        if stop_places:
            bounded = replace(self, tokens=_first_characters(tokens, min(stop_places)))
        if self.stops_after is not None and self.stops_after < len(bounded.contents):
            return bounded
        return replace(bounded, stops_after=None, failure=None, hangs=False)

    def behind(self, prefix: str) -> Script:
        """The rest of the script after `prefix`, which is text alone.

        Raises:
            UpstreamFailed: the script does not begin with it.
        """
        text = "".join(self.tokens)
        if not text.startswith(prefix):
            raise UpstreamFailed(
                "the demo model's answer is another one now", code="upstream_failed"
            )
        skipped, length = 0, 0
        while length < len(prefix):
            length += len(self.tokens[skipped])
            skipped += 1
        # A delta may end inside a token.
        partial_tokens = [text[len(prefix) : length]] if length > len(prefix) else []
        skipped_contents = len(self.parts_before) + skipped - len(partial_tokens)
        stops_after = (
            None if self.stops_after is None else max(0, self.stops_after - skipped_contents)
        )
        return replace(
            self,
            parts_before=(),
            tokens=partial_tokens + self.tokens[skipped:],
            stops_after=stops_after,
        )


class _ScriptEnding(TypedDict, total=False):
    stops_after: int
    failure: UpstreamFailed
    hangs: bool


def demo_tokens(seed: int, count: int) -> list[str]:
    """The tokens of the directives `seed` and `tokens`. Each seed has its own words."""
    return Random(seed).choices(_VOCABULARY, k=count) if count else []


def split_tokens(text: str) -> list[str]:
    """Cut a text into tokens as long as a model's. Joined, they are the text."""
    return _TOKEN.findall(text)


def is_directive(text: str) -> bool:
    """Whether a message has directives for the demo model, instead of a question."""
    return text.split(maxsplit=1)[:1] == ["#demo"]


def directed_script(text: str, attempt: int) -> Script:
    """The script for a `#demo` message.

    Raises:
        ModelRefused: the message asks for that, or has an unknown directive.
    """
    words = text.split()[1:]
    try:
        directives = Directives.model_validate(dict(word.split("=", 1) for word in words))
    except (ValidationError, ValueError) as error:
        raise ModelRefused(
            "the demo model takes `#demo name=value …` with "
            f"{', '.join(Directives.model_fields)}; {text[:100]!r} has a name or a value that it "
            "does not know",
            code="model_refused",
        ) from error
    if directives.refuse:
        raise ModelRefused(
            "the demo model was told to refuse this message; nothing was generated",
            code="model_refused",
        )
    random = Random(directives.seed)
    return Script(
        demo_tokens(directives.seed, directives.tokens),
        directives.first_token_ms,
        _real_gaps(random)
        if directives.bursty
        else _steady_gaps(random, directives.gap_ms, directives.jitter_ms),
        directives=directives,
        **_ending(directives, attempt),
    )


def answer_script(answer: str, random: Random) -> Script:
    """A script for `answer`, with a real model's timing."""
    return Script(split_tokens(answer), random.uniform(250, 600), _real_gaps(random))


def _first_characters(tokens: list[str], count: int) -> list[str]:
    """The tokens of the first `count` characters. The last one may be cut."""
    first_tokens: list[str] = []
    for token in tokens:
        if count <= 0:
            break
        first_tokens.append(token[:count])
        count -= len(token)
    return first_tokens


def _ending(directives: Directives, attempt: int) -> _ScriptEnding:
    if directives.fail_after is not None and attempt <= directives.fail_attempts:
        failure = UpstreamFailed("the demo model was told to fail here", code="upstream_failed")
        return {"stops_after": directives.fail_after, "failure": failure}
    if directives.hang_after is not None:
        return {"stops_after": directives.hang_after, "hangs": True}
    return {}


def _steady_gaps(random: Random, gap_ms: float, jitter_ms: float) -> Iterator[float]:
    if not jitter_ms:
        return repeat(gap_ms)
    return (max(0.0, gap_ms + random.uniform(-jitter_ms, jitter_ms)) for _ in repeat(None))


def _real_gaps(random: Random) -> Iterator[float]:
    while True:
        chance = random.random()
        if chance < _STALL_CHANCE:
            yield random.uniform(*_STALL_MS)
        elif chance < _STALL_CHANCE + _BURST_CHANCE:
            for _ in range(random.randint(*_BURST_TOKENS)):
                yield _BURST_GAP_MS
        else:
            yield random.uniform(20, 80)
