"""Any OpenAI-compatible streaming server as a token source."""

from __future__ import annotations

import io
import logging
from typing import Any

import aiohttp
import orjson

from fargate_handler.token_sources.abort_connection import abort_connection
from fargate_handler.token_sources.caller_headers import caller_headers
from fargate_handler.token_sources.holding import while_held
from fargate_handler.token_sources.openai_answer import DONE, OpenAIAnswer, error_message
from fargate_handler.token_sources.openai_messages import openai_message, streamed_parameters
from fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from fargate_handler.token_sources.sse_decoder import SseDecoder
from stream_core.conversation import Turn
from stream_core.errors import ModelRefused, UpstreamFailed, UpstreamRejected

_logger = logging.getLogger(__name__)

_MOST_ERROR_BYTES = 65_536


class OpenAIModel:
    """Speaks `POST {url}/chat/completions` with `stream: true`.

    Args:
        url: the server's base, up to and including `/v1`.
        model: the model's name there.
        api_key: sent as a bearer token, when given.
        max_tokens: the longest answer; None for the server's own limit.
        continues: whether the server goes on from an assistant's turn that stands last (vLLM's `continue_final_message`).
    """

    def __init__(
        self, url: str, model: str, api_key: str | None, max_tokens: int | None = None, *, continues: bool = False
    ) -> None:
        self._continues = continues
        self._max_tokens = max_tokens
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._model = model
        headers = {"Accept": "text/event-stream"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # Deadlines are the worker's; the number of generations bounds the number of connections.
        self._http = aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            connector=aiohttp.TCPConnector(limit=0),
        )

    @property
    def continues(self) -> bool:
        """See `TokenSource.continues`."""
        return self._continues

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`."""
        headers = {"Content-Type": "application/json", **caller_headers(request)}
        if request.key:
            headers["Idempotency-Key"] = request.key
        try:
            # As a file it is sent piece by piece: it may be megabytes.
            body = io.BytesIO(orjson.dumps(self._body(request)))
            async with self._http.post(self._url, data=body, headers=headers) as answer:
                del body
                if answer.status != 200:
                    raise _refusal(answer.status, await answer.content.read(_MOST_ERROR_BYTES))
                try:
                    return await _relay(answer.content, OpenAIAnswer(sink, marked=request.marked), sink)
                except BaseException:
                    abort_connection(answer)  # which is what stops the model
                    raise
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(
                f"the connection to the model's server failed ({type(error).__name__}); what it had sent was kept",
                code="upstream_failed",
            ) from error

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        turns = request.turns
        body: dict[str, Any] = {}
        if request.prefix:
            turns = (*turns, Turn("assistant", request.prefix))
            body = {"continue_final_message": True, "add_generation_prompt": False}
        return {
            **streamed_parameters(request.options.within(self._max_tokens).parameters()),
            "model": request.model or self._model,
            "messages": [openai_message(turn) for turn in turns],
            **body,
        }

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._http.close()


async def _relay(content: aiohttp.StreamReader, answer: OpenAIAnswer, sink: TokenSink) -> ModelFinish:
    decoder = SseDecoder()
    async for chunk in content.iter_any():
        for data in decoder.feed(chunk):
            if data == DONE:
                return answer.finish()
            answer.take(data)
        await while_held(sink)
    return answer.finish()


def _refusal(status: int, body: bytes) -> UpstreamFailed | ModelRefused:
    try:
        message = error_message(orjson.loads(body)["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = body[:200].decode("utf-8", "replace")
    if status in (400, 413, 422):
        return ModelRefused(f"the model refused the message: {message}", code="model_refused")
    if status in (401, 403, 404):
        # For us to mend, and nothing that a user should read.
        _logger.error(
            "the model's server answered %d: check EVENFLOW_MODEL_URL, EVENFLOW_MODEL_NAME and EVENFLOW_MODEL_API_KEY",
            status,
        )
        return UpstreamRejected("the model cannot be reached; what was delivered was kept", code="upstream_failed")
    return UpstreamFailed(f"the model's server answered {status}: {message}", code="upstream_failed")
