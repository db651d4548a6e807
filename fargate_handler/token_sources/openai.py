"""Any OpenAI-compatible streaming server as a token source."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import orjson

from fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from fargate_handler.token_sources.sse_decoder import SseDecoder
from stream_core.errors import ModelRefused, UpstreamFailed, UpstreamRejected
from stream_core.messages import Usage

_logger = logging.getLogger(__name__)

_DONE = b"[DONE]"
_HELD_SECONDS = 0.05
_MOST_ERROR_BYTES = 65_536


class OpenAIModel:
    """Speaks `POST {url}/chat/completions` with `stream: true`.

    Args:
        url: the server's base, up to and including `/v1`.
        model: the model's name there.
        api_key: sent as a bearer token, when given.
    """

    def __init__(self, url: str, model: str, api_key: str | None) -> None:
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

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`."""
        body = {
            "model": self._model,
            "messages": [{"role": turn.role, "content": turn.text} for turn in request.turns],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            # Leaving the block before the end closes the connection, which is what stops the model.
            async with self._http.post(
                self._url, data=orjson.dumps(body), headers={"Content-Type": "application/json"}
            ) as answer:
                if answer.status != 200:
                    raise _refusal(answer.status, await answer.content.read(_MOST_ERROR_BYTES))
                return await _relay(answer.content, sink)
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(
                f"the connection to the model's server failed ({type(error).__name__}); what it had sent was kept",
                code="upstream_failed",
            ) from error

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._http.close()


async def _relay(content: aiohttp.StreamReader, sink: TokenSink) -> ModelFinish:
    decoder = SseDecoder()
    answer = _Answer(sink)
    async for chunk in content.iter_any():
        for data in decoder.feed(chunk):
            if data == _DONE:
                return answer.finish()
            answer.take(data)
        while sink.held:  # noqa: ASYNC110 - a pause is rare and long; not reading holds the server back meanwhile
            await asyncio.sleep(_HELD_SECONDS)
    return answer.finish()


class _Answer:
    """What the chunks of one answer add up to."""

    def __init__(self, sink: TokenSink) -> None:
        self._sink = sink
        self._reason: str | None = None
        self._usage: Usage | None = None

    def take(self, data: bytes) -> None:
        """One chunk.

        Raises:
            UpstreamFailed: it is an error, or no chunk at all.
        """
        try:
            chunk = orjson.loads(data)
            text = self._read(chunk)
        except (orjson.JSONDecodeError, AttributeError, LookupError, TypeError, ValueError) as wrong:
            raise UpstreamFailed(
                "the model's server sent something that is no chunk; what came before was kept", code="upstream_failed"
            ) from wrong
        if chunk.get("error"):
            raise UpstreamFailed(
                f"the model's server ended with an error: {_message(chunk['error'])}; what came before was kept",
                code="upstream_failed",
            )
        if text:
            self._sink.push(text)

    def _read(self, chunk: dict[str, Any]) -> str | None:
        # Servers differ in what they leave out or set to null.
        usage = chunk.get("usage") or {}
        if "prompt_tokens" in usage and "completion_tokens" in usage:
            self._usage = Usage(prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"])
        choices = chunk.get("choices")
        if not choices:
            return None
        self._reason = choices[0].get("finish_reason") or self._reason
        text = (choices[0].get("delta") or {}).get("content")
        if text is not None and not isinstance(text, str):
            raise TypeError("content is not text")
        return text

    def finish(self) -> ModelFinish:
        """The end of the stream.

        Raises:
            UpstreamFailed: the stream broke off before the model had finished.
        """
        if self._reason is None:
            raise UpstreamFailed(
                "the model's server broke off in the middle of its answer; what came before was kept",
                code="upstream_failed",
            )
        return ModelFinish("length" if self._reason == "length" else "stop", self._usage)


def _refusal(status: int, body: bytes) -> UpstreamFailed | ModelRefused:
    try:
        message = _message(orjson.loads(body)["error"])
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


def _message(error: object) -> str:
    return str(error.get("message", error))[:200] if isinstance(error, dict) else str(error)[:200]
