"""Any OpenAI-compatible streaming server as a token source."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp
import orjson

from evenflow.fargate_handler.token_sources.answer_body import AnswerBody
from evenflow.fargate_handler.token_sources.conversation_forms import openai_message
from evenflow.fargate_handler.token_sources.guarded_connector import GuardedConnector
from evenflow.fargate_handler.token_sources.model_connection import (
    abort_connection,
    caller_headers,
)
from evenflow.fargate_handler.token_sources.model_refusals import ParametersRefused
from evenflow.fargate_handler.token_sources.openai_answer import OpenAIAnswer
from evenflow.fargate_handler.token_sources.openai_failures import Failures, quota_used_for
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.fargate_handler.token_sources.pushed_body import Arrivals, PushedBody
from evenflow.fargate_handler.token_sources.server_profile import (
    ServerProfile,
    is_about_a_value,
)
from evenflow.stream_core.base.errors import EvenflowError, UpstreamFailed, UpstreamUnreadable
from evenflow.stream_core.bounds.memory_bound import READ_AHEAD_BYTES
from evenflow.stream_core.session.conversation import Turn

_MOST_ERROR_BYTES = 65_536
_ERROR_SECONDS = 5.0
_MOST_ENCODING = 40
# What comes after the end of an answer. Usually it is there already.
_MOST_REST_BYTES = 65_536
_REST_SECONDS = 0.25
# Less than the 5 s after which uvicorn and Node.js close, perhaps just as the next request is sent.
_KEEP_ALIVE_SECONDS = 4.0
# HTTP calls for one request, including those rejected for a parameter that Evenflow added.
_MOST_CALLS = 3


class OpenAIModel:
    """A `TokenSource` of a server: `POST {url}/chat/completions` with `stream: true`.

    Args:
        url: the server's base, with `/v1`.
        model: the model's name there.
        api_key: the bearer token. None: none is sent.
        max_tokens: the longest answer. None: the server's own limit.
        response_bytes: the longest text of an answer, which bounds its body (`AnswerBody`).
        continues: whether the server continues an assistant's turn that comes last (vLLM's
            `continue_final_message`).
        proxy: the forward proxy to the server. None: it is called directly.
        profile: the parameters that the server accepts, as far as the operator has set them.
    """

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None,
        max_tokens: int | None = None,
        *,
        response_bytes: int = 0,
        continues: bool = False,
        proxy: str | None = None,
        profile: ServerProfile | None = None,
    ) -> None:
        self._continues = continues
        self._profile = profile or ServerProfile()
        # By the name of the model: models of one server may differ.
        self._profiles = dict[str, ServerProfile]()
        self._max_tokens = max_tokens
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._model = model
        self._response_bytes = response_bytes
        self._arrivals = Arrivals()
        self._failures = Failures()
        # A small compressed answer may unpack to gigabytes.
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # The orchestrator has the deadlines, and its number of generations limits the connections.
        self._http = aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            connector=GuardedConnector(_KEEP_ALIVE_SECONDS, self._failures.unsolicited),
            proxy=proxy,
            auto_decompress=False,
            read_bufsize=READ_AHEAD_BYTES // 2,  # aiohttp reads on up to twice as much
            # All users share the connections, so a cookie must not reach the next request.
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    @property
    def continues(self) -> bool:
        """Whether the server continues an assistant's turn."""
        return self._continues

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`.

        If the server rejects a parameter that Evenflow added or translated, the request is repeated
        without it. What worked is remembered for the model.
        """
        first_profile = profile = self._profiles.get(request.model, self._profile)
        attempt, calls, is_lasting = request, 1, True
        while True:
            try:
                finish = await self._call(attempt, sink, profile)
                break
            except ParametersRefused as refused:
                adapted = profile.after(refused.names, request, self._max_tokens)
                if adapted is None or calls == _MOST_CALLS:
                    raise
                profile, calls = adapted, calls + 1
                is_lasting = is_lasting and not is_about_a_value(refused.names)
                # It is another request now: a server would reject it under the first one's key.
                attempt = replace(request, key=f"{request.key}:{calls}" if request.key else "")
        if is_lasting and profile is not first_profile:
            self._profiles[request.model] = profile
        return finish

    async def _call(
        self, request: ModelRequest, sink: TokenSink, profile: ServerProfile
    ) -> ModelFinish:
        profile.check_images(request)
        headers = {"Content-Type": "application/json", **caller_headers(request)}
        if request.key:
            headers["Idempotency-Key"] = request.key
        try:
            # A file is sent piece by piece: it may be megabytes.
            parameters = self._body(request, profile)
            body, sent_names = io.BytesIO(orjson.dumps(parameters)), frozenset(parameters)
            del parameters
            # Prompt and key go only where the settings say, so redirects are not followed.
            async with self._http.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                request_is_sent = body.closed or body.tell() == len(body.getbuffer())
                del body
                try:
                    if answer.status != 200:
                        raise await self._failure(answer, sent_names)
                    self._check(answer, request_is_sent=request_is_sent)
                    return await self._read_answer(request, sink, answer)
                except BaseException:
                    abort_connection(answer)  # which stops the model
                    raise
        except aiohttp.InvalidURL as error:
            raise self._failures.not_set_up("the address of the model's server is wrong") from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError):
                self._failures.unreachable(error)
            raise UpstreamFailed(
                f"the connection to the model's server failed ({type(error).__name__}); what it "
                "had sent was kept",
                code="upstream_failed",
            ) from error

    async def _read_answer(
        self, request: ModelRequest, sink: TokenSink, answer: aiohttp.ClientResponse
    ) -> ModelFinish:
        seconds = quota_used_for(answer.headers)
        if seconds and request.on_quota_used is not None:
            request.on_quota_used(seconds)
        reply = OpenAIAnswer(
            sink, self._failures, choices=request.options.choices, headers=answer.headers
        )
        finish = await self._relay(answer, reply, sink)
        await _rest(answer.content, _MOST_REST_BYTES, _REST_SECONDS)
        return finish

    async def _failure(
        self, answer: aiohttp.ClientResponse, sent_names: frozenset[str]
    ) -> EvenflowError:
        """The error for an answer with another status than 200."""
        body = b""
        if _encoding_of(answer) is None:
            body = await _rest(answer.content, _MOST_ERROR_BYTES, _ERROR_SECONDS)
        return self._failures.answered(answer.status, answer.headers, body, sent_names)

    def _check(self, answer: aiohttp.ClientResponse, *, request_is_sent: bool) -> None:
        if not request_is_sent:
            raise UpstreamUnreadable(
                "the model's server answered before it had the question; nothing of that was kept",
                code="upstream_failed",
            )
        if encoding := _encoding_of(answer):
            raise self._failures.not_set_up(
                f"the model's server compresses its answers ({encoding}), though it is asked not "
                "to; turn that off there, or in the proxy before it"
            )

    async def _relay(
        self, http_answer: aiohttp.ClientResponse, answer: OpenAIAnswer, sink: TokenSink
    ) -> ModelFinish:
        body = AnswerBody(answer, sink, self._response_bytes)
        try:
            await PushedBody(http_answer, body.take, sink, self._arrivals).read()
        except (aiohttp.ClientError, OSError):
            if not answer.has_ended:
                raise
            abort_connection(http_answer)  # only the end of the body is missing
        return body.finish()

    def _body(self, request: ModelRequest, profile: ServerProfile | None = None) -> dict[str, Any]:
        profile = profile or self._profile
        turns = request.turns
        body: dict[str, Any] = {}
        if request.prefix:
            turns = (*turns, Turn("assistant", request.prefix))
            body = {"continue_final_message": True, "add_generation_prompt": False}
        messages = [openai_message(turn) for turn in turns]
        profile.name_instructions(messages)
        return {
            **profile.parameters(request, self._max_tokens),
            "model": request.model or self._model,
            "messages": messages,
            **body,
        }

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._http.close()


def _encoding_of(answer: aiohttp.ClientResponse) -> str | None:
    """The encoding of an answer's body. None: it is not encoded."""
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    return None if encoding in ("", "identity") else encoding[:_MOST_ENCODING]


async def _rest(content: aiohttp.StreamReader, most_bytes: int, seconds: float) -> bytes:
    """The rest of a body, if it comes soon. Then the connection can be used again."""
    parts: list[bytes] = []
    size = 0
    # aiohttp raises a RuntimeError where the connection is lost already.
    with suppress(TimeoutError, aiohttp.ClientError, OSError, RuntimeError):
        async with asyncio.timeout(seconds):
            while size < most_bytes and (part := await content.readany()):
                parts.append(part)
                size += len(part)
    return b"".join(parts)[:most_bytes]
