"""What a request costs at most, before its model has told."""

from __future__ import annotations

from dataclasses import dataclass

from fargate_handler.orchestrator.whole_request import WholeRequest
from stream_core.log.conversation import Turn

# Of UTF-8. Models take more of English and of code for a token, about so many of other languages.
_BYTES_PER_TOKEN = 3
_TOKENS_PER_TURN = 8
# An image, as most models count it.
_TOKENS_PER_PART = 1_600


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """What a request is expected to cost.

    Args:
        model: the model's name at its server.
        input_tokens: estimated.
        output_tokens: the longest that it may be. None: nothing bounds it.
    """

    model: str
    input_tokens: int
    output_tokens: int | None


def expected_cost(
    asked: WholeRequest, model: str, longest: int | None, history_bytes: int = 0
) -> ExpectedCost:
    """What a request is expected to cost.

    Args:
        longest: the longest answer of the model, in tokens. None: the server's own limit.
        history_bytes: what the model is given beside the turns of the request.
    """
    options = asked.options.within(longest)
    most = None if options.longest is None else options.longest * options.choices
    return ExpectedCost(model, estimated_input(asked) + tokens_of(history_bytes), most)


def estimated_input(asked: WholeRequest) -> int:
    """About how many tokens a request is to its model."""
    tools = sum(len(str(tool)) for tool in asked.options.tools)
    return tokens_of(tools) + sum(_tokens_of_turn(turn) for turn in asked.turns)


def tokens_of(size: int) -> int:
    """About how many tokens so many bytes of text are, rounded up."""
    return -(-size // _BYTES_PER_TOKEN)


def _tokens_of_turn(turn: Turn) -> int:
    calls = sum(len(call.name) + len(call.arguments) for call in turn.tool_calls)
    others = len([part for part in turn.parts if part.get("type") != "text"])
    text = len(turn.text.encode("utf-8", "surrogatepass"))
    return _TOKENS_PER_TURN + tokens_of(text + calls) + _TOKENS_PER_PART * others
