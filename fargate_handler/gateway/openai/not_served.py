"""The calls of OpenAI's and Anthropic's APIs that aren't served here: what to use instead."""

from __future__ import annotations

from aiohttp import web

from fargate_handler.gateway.http_answers import error_answer, json_answer
from stream_core.errors import NotFound

_ADVICE = {
    "responses": (
        "the Responses API is not served here; use POST /v1/chat/completions: `client.chat.completions.create(…)` with "
        'OpenAI\'s SDKs, `set_default_openai_api("chat_completions")` with the Agents SDK, `openai.chat(…)` with the AI SDK'
    ),
    "messages": (
        "Anthropic's API is not served here; use POST /v1/chat/completions with a client of OpenAI's API, whose base URL "
        "ends with /v1"
    ),
    "completions": (
        "the legacy completions are not served here; use POST /v1/chat/completions, with the prompt as a message: "
        '`messages=[{"role": "user", "content": prompt}]`'
    ),
    "embeddings": (
        "embeddings are not served here, and nothing that takes their place: this answers conversations, by "
        "POST /v1/chat/completions; ask a server of embeddings"
    ),
}

PATH = f"/v1/{{call:{'|'.join(_ADVICE)}}}{{rest:(/.*)?}}"
"""These calls, and what lies under them."""


async def not_served(request: web.Request) -> web.Response:
    """404, whoever asks: a client that has the wrong call needs no key to hear of the right one."""
    call = request.match_info["call"]
    error = NotFound(f"{_ADVICE[call]}. Nothing was generated", code="path_not_found")
    if call == "messages":
        # Anthropic's errors are ours in an object that says that it is one.
        return json_answer({"type": "error", **error.to_body()}, error.status)
    return error_answer(error)
