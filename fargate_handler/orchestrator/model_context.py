"""Fits conversations into the context of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.stream_core.base.errors import EvenflowError, ModelRefused
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.session.token_estimate import estimated_tokens
from evenflow.stream_core.upstream.context_length import TOO_LONG, ContextLengths

# Tokens of the context that stay free for an answer without a maximum length.
_ANSWER_TOKENS = 4_096
# Tokens. A smaller number in a server's words is another limit.
_SMALLEST_CONTEXT = 256


@dataclass(slots=True)
class StatedContext:
    """A model's context in tokens, as its server has stated it in a rejection. None: it has not."""

    tokens: int | None = None


def is_too_long(error: EvenflowError) -> bool:
    """Whether a model's server has rejected a request as longer than the model's context."""
    return isinstance(error, ModelRefused) and error.code == TOO_LONG


def stated_context(refusal: EvenflowError) -> int | None:
    """The model's context in tokens, if the rejection states it."""
    most = ContextLengths.stated_in(refusal.message).most
    return most if most is not None and most >= _SMALLEST_CONTEXT else None


def prompt_tokens(context: int, longest: int | None) -> int:
    """The most tokens of a prompt in a context.

    Args:
        longest: the longest answer, in tokens. None: none is set.
    """
    return context - min(longest or _ANSWER_TOKENS, context // 2)


def without_oldest(turns: Sequence[Turn], most: int) -> tuple[tuple[Turn, ...], int]:
    """The turns with the oldest exchanges left out, until they have at most `most` tokens.

    Instructions stay, and so do the last exchange and the message, however long they are.

    Returns:
        The turns, and the number of messages left out.
    """
    questions = [index for index, turn in enumerate(turns) if turn.role == "user"]
    beginnings = questions[:-1] or questions
    if not beginnings:
        return tuple(turns), 0
    instructions = tuple(turns[: questions[0]])
    sizes = [estimated_tokens([turn]) for turn in turns]
    total, left_out = sum(sizes), 0
    while total > most and left_out < len(beginnings) - 1:
        total -= sum(sizes[beginnings[left_out] : beginnings[left_out + 1]])
        left_out += 1
    return (*instructions, *turns[beginnings[left_out] :]), left_out
