"""A prompt that is too long, in the words of servers, and in those that clients know."""

from __future__ import annotations

import pytest

from evenflow.stream_core.upstream.context_length import ContextLengths

BOTH = ContextLengths(9001, 8192)


@pytest.mark.parametrize(
    ("words", "lengths"),
    [
        # OpenAI, vLLM, DeepSeek
        (
            (
                "This model's maximum context length is 8192 tokens. However, your messages "
                "resulted in 9001 tokens. Please reduce the length of the messages."
            ),
            BOTH,
        ),
        (
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9001 "
                "tokens (8901 in the messages, 100 in the completion)."
            ),
            BOTH,
        ),
        (
            (
                "You passed 9001 input tokens and requested 0 output tokens. However, the model's "
                "context length is only 8192 tokens"
            ),
            BOTH,
        ),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum "
                "context length is 4096 tokens and your request has 2104 input tokens "
                "(2000 > 4096 - 2104)."
            ),
            ContextLengths(None, 4096),
        ),
        (
            (
                "Input tokens exceed the configured limit of 272,000 tokens. Your messages "
                "resulted in 509,178 tokens."
            ),
            ContextLengths(509_178, 272_000),
        ),
        ("prompt is too long: 9001 tokens > 8192 maximum", BOTH),  # Anthropic
        ("request (9001 tokens) exceeds the available context size (8192 tokens)", BOTH),  # llama
        ("The input token count (9001) exceeds the maximum number of tokens allowed (8192).", BOTH),
        ("This model's maximum prompt length is 8192 but the request contains 9001 tokens.", BOTH),
        ("prompt token count of 9001 exceeds the limit of 8192", BOTH),
        (
            (
                "Prompt contains 9001 tokens and 0 draft tokens, too large for model with 8192 "
                "maximum context length"
            ),
            BOTH,
        ),
        ("`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9001 `inputs` tokens", BOTH),
        ("The input (9001 tokens) is longer than the model's context length (8192 tokens).", BOTH),
        ("Your request exceeded model token limit: 8192", ContextLengths(None, 8192)),
        ("Your input exceeds the context window of this model.", ContextLengths(None, None)),
        ("too long, says 10.0.0.7 of v2", ContextLengths(None, None)),
    ],
)
def test_the_lengths_are_found_whatever_the_server_calls_them(
    words: str, lengths: ContextLengths
) -> None:
    assert ContextLengths.stated_in(words) == lengths


@pytest.mark.parametrize(
    ("lengths", "of_openai", "of_anthropic"),
    [
        (
            BOTH,
            "This model's maximum context length is 8192 tokens, you requested 9001 tokens",
            "prompt is too long: 9001 tokens > 8192 maximum",
        ),
        (
            ContextLengths(None, 8192),
            "This model's maximum context length is 8192 tokens",
            "prompt is too long: the maximum is 8192 tokens",
        ),
        (
            ContextLengths(None, None),
            "This model's maximum context length is exceeded",
            "prompt is too long: it exceeds the context of the model",
        ),
    ],
)
def test_they_are_told_in_the_words_of_each_api(
    lengths: ContextLengths, of_openai: str, of_anthropic: str
) -> None:
    assert lengths.in_words_of_openai() == of_openai
    assert lengths.in_words_of_anthropic() == of_anthropic
    if lengths.most is not None:
        assert ContextLengths.stated_in(of_openai) == lengths
