"""Checks a model server's token counts before they are charged or passed on."""

from __future__ import annotations

from evenflow.stream_core.base.answer import Usage

# Tokens. Stores add the counts of a day up in 64 bits.
MOST_COUNTED = 10**12


def checked_usage(
    prompt: object,
    completion: object,
    *,
    cached: object = None,
    reasoning: object = None,
    total: object = None,
) -> Usage | None:
    """The usage with these counts. None: the model did not count, or its counts are impossible.

    Cached tokens are part of the prompt's, reasoning tokens of the completion's. Some servers count
    them apart: a part that is larger than its whole is added to it. So is the reasoning that only
    the total has, as with Gemini and xAI.
    """
    prompt_tokens, completion_tokens = _count(prompt), _count(completion)
    if prompt_tokens is None or completion_tokens is None:
        return None
    cached_tokens, reasoning_tokens = _count(cached), _count(reasoning)
    if cached_tokens is not None and cached_tokens > prompt_tokens:
        prompt_tokens += cached_tokens
    if reasoning_tokens is not None and reasoning_tokens > completion_tokens:
        completion_tokens += reasoning_tokens
    uncounted = (_count(total) or 0) - prompt_tokens - completion_tokens
    if uncounted > 0:
        completion_tokens += uncounted
        reasoning_tokens = uncounted if reasoning_tokens is None else reasoning_tokens
    if max(prompt_tokens, completion_tokens) > MOST_COUNTED:
        return None
    return Usage(prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens)


def _count(number: object) -> int | None:
    """A count, which may be written as `1611.0`. None: it is not a valid count."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if 0 <= number <= MOST_COUNTED and number == int(number) else None


def cache_written(count: object, usage: Usage | None) -> int:
    """The prompt tokens that were written to the cache of the server. 0: it is not counted."""
    written = _count(count)
    if written is None or usage is None:
        return 0
    return min(written, usage.prompt_tokens - (usage.cached_tokens or 0))
