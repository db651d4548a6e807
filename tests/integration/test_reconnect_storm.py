"""Everybody comes back at once, to a task that has none of their answers: admitted at a bounded
rate, new clients first, each answer goes on exactly, and the store hears of one reader per answer.

Forty come back here, a hundred and twenty-eight in `make soak`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_aws.keys import parse_signing_keys
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from tests.integration.answer import Answer
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import ChatSession, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.deployment import SIGNING_KEYS, AwsDeployment
from tests.integration.dynamodb_emulator import DynamoDBEmulator, dynamodb_emulator
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import TEXT, RawWebSocket, text_frame
from tests.integration.server_process import free_port

_READERS_OF_EACH = 8
_NEW_GAP_SECONDS = 0.1
_TOKEN_AGE_SECONDS = 120
_GAP_MS = 100
_STORE_INTERVAL_MS = 500
_STORM_SECONDS = 90.0


@dataclass(frozen=True)
class Storm:
    """How many come, and how quickly they are let in."""

    answers: int
    tokens: int
    """Of each answer."""
    new: int
    """Clients that come for the first time meanwhile."""
    per_second: int

    @property
    def returning(self) -> int:
        """Everybody who comes back."""
        return self.answers * _READERS_OF_EACH

    @property
    def burst(self) -> int:
        """How many are let in at once."""
        return 2 * self.per_second


@dataclass(frozen=True)
class _Held:
    """What the readers of one answer hold of it when they come back."""

    token: str
    response_id: str
    seed: int
    last: int
    text: str


@dataclass
class _Returning:
    """What the returning clients saw."""

    began_at: float = field(default_factory=time.monotonic)
    admitted: list[float] = field(default_factory=list)
    """Seconds from the beginning to each accepted handshake."""
    refused: int = 0
    vias: list[str] = field(default_factory=list)

    async def come_back(self, server: LocalServer, held: _Held) -> Answer:
        """Try until admitted, as the refusals tell; then read on to the end."""
        while True:
            async with await RawWebSocket.connect(server.port) as raw:
                if await raw.handshake(held.token) == 101:
                    self.admitted.append(time.monotonic() - self.began_at)
                    return await self._read_on(raw, held)
                wait = await _refusal(raw)
            self.refused += 1
            await asyncio.sleep(wait)

    async def _read_on(self, raw: RawWebSocket, held: _Held) -> Answer:
        answer = Answer(held.last, held.text)
        message = {
            "type": "response.resume",
            "response_id": held.response_id,
            "after": held.last,
            "epoch": 1,
        }
        raw.write(text_frame(message))
        start = await raw.next_of("chat.response.start")
        self.vias.append(start.get("via", "owner"))
        while answer.end is None:
            frame = await raw.frame()
            if frame.opcode == TEXT:
                answer.take(frame.json)
        return answer


async def _refusal(raw: RawWebSocket) -> float:
    """Check the refusal; the seconds after which it asks to try again."""
    assert raw.status == 503
    error = checked_error(json.loads(await raw.read_body()))
    assert error["code"] == "reconnect_storm"
    wait: int = error["retry_after_ms"]
    assert int(raw.headers["retry-after"]) * 1000 >= wait > 0
    return wait / 1000


@pytest.fixture
async def line(serve: Serve) -> AsyncIterator[DynamoDBEmulator]:
    """The way to the tables of the task to which everybody comes: it counts.

    It is closed before the task is stopped.
    """
    async with dynamodb_emulator() as proxy:
        yield proxy


@pytest.fixture
def tokens(emulated_aws: AwsEmulator) -> SessionTokens:
    """Signs as the deployment does."""
    secret = emulated_aws.client("secretsmanager").get_secret_value(SecretId=SIGNING_KEYS)[
        "SecretString"
    ]
    return SessionTokens(parse_signing_keys(secret))


async def _ask(
    owner: LocalServer, http: aiohttp.ClientSession, tokens: SessionTokens, seed: int, length: int
) -> _Held:
    """Ask for an answer in a session that has been there for a while, and get the beginning of
    it.
    """
    channel = Channel("public", "demo", f"storm-{seed}")
    token, _ = tokens.issue(channel, time.time() - _TOKEN_AGE_SECONDS, 3_600)
    addresses = {"ws_url": owner.ws_url, "http_url": owner.http_url}
    session = ChatSession(http, {"session_id": channel.session, "token": token, **addresses})
    posted = await session.post("m1", None, demo(tokens=length, gap_ms=_GAP_MS, seed=seed))
    polled = (await session.poll(posted.json["response_id"])).json
    return _Held(token, polled["response_id"], seed, polled["chunk_index"], polled["new_text"])


async def _new_clients(count: int, server: LocalServer, opened: OpenSession) -> None:
    """They come one after the other while the storm is on: none is refused, and each gets its
    answer.
    """

    async def come(seed: int) -> None:
        session = await opened(server)
        async with session.connect() as connection:
            answer = await connection.ask("m1", None, demo(tokens=5, gap_ms=20, seed=seed))
        assert answer.text == "".join(demo_tokens(seed, 5))

    coming = []
    for seed in range(count):
        coming.append(asyncio.create_task(come(seed)))
        await asyncio.sleep(_NEW_GAP_SECONDS)
    await asyncio.gather(*coming)


def _check_rate(storm: Storm, admitted: Sequence[float]) -> None:
    """A client hears of its admission after the task has counted it, so the bound holds on the
    client's clock as well.
    """
    assert len(admitted) == storm.returning
    for count, seconds in enumerate(sorted(admitted), 1):
        assert count <= storm.burst + storm.per_second * seconds + 1


async def everybody_comes_back(
    storm: Storm,
    via: str,
    aws_deployment: AwsDeployment,
    line: DynamoDBEmulator,
    tokens: SessionTokens,
    http: aiohttp.ClientSession,
    opened: OpenSession,
) -> None:
    """They are admitted as the limit says, and each gets the rest of its answer `via` the owner
    or the store.
    """
    unreachable = {"peer_url": f"http://127.0.0.1:{free_port()}"} if via == "store" else {}
    common = {
        "store_interval_ms": _STORE_INTERVAL_MS,
        "polled_store_interval_ms": _STORE_INTERVAL_MS,
        "grace_seconds": 60,
        "heartbeat_seconds": 600,
        "pong_timeout_seconds": 1_000,
        "connections_per_session": _READERS_OF_EACH,
    }
    owner = await aws_deployment.handler(**common, **unreachable)
    counted = replace(
        aws_deployment, environment={**aws_deployment.environment, **line.environment}
    )
    server = await counted.handler(**common, returning_connections_per_second=storm.per_second)
    asked = await asyncio.gather(
        *(_ask(owner, http, tokens, seed, storm.tokens) for seed in range(storm.answers))
    )
    given_before, before = (
        (await owner.metrics())["evenflow_deltas_delivered_total"],
        line.requests.copy(),
    )

    seen = _Returning()
    async with asyncio.timeout(_STORM_SECONDS):
        readers = [seen.come_back(server, held) for held in asked for _ in range(_READERS_OF_EACH)]
        new = asyncio.create_task(_new_clients(storm.new, server, opened))
        answers = await asyncio.gather(*readers)
        await new
    lasted = time.monotonic() - seen.began_at

    for held, answer in zip(
        (held for held in asked for _ in range(_READERS_OF_EACH)), answers, strict=True
    ):
        assert answer.finish_reason == "stop"
        assert answer.text == "".join(demo_tokens(held.seed, storm.tokens))
    _check_rate(storm, seen.admitted)
    assert seen.refused > 0
    assert (await server.metrics())["evenflow_ws_connections_refused_total"] == seen.refused
    # While an owner doesn't answer in time, what is on record is read.
    assert via in seen.vias
    assert set(seen.vias) <= {via, "store"}

    entries = sum(answer.last + 1 for answer in answers[::_READERS_OF_EACH])
    given = (await owner.metrics())["evenflow_deltas_delivered_total"] - given_before
    reads = sum((line.requests - before)[operation] for operation in ("GetItem", "Query"))
    # Its followers, one for each answer, got each delta once.
    assert 0 < given <= entries if via == "peer" else given == 0
    # Each of them reads the chunks and the head as often as they are written; the task sweeps, and
    # new sessions are looked for.
    beats = lasted * 1000 / _STORE_INTERVAL_MS + 5
    assert reads < 2 * storm.answers * beats + 5 * lasted + 5 * storm.new


@pytest.mark.parametrize("via", ["peer", "store"])
async def test_everybody_comes_back_at_once(
    via: str,
    aws_deployment: AwsDeployment,
    line: DynamoDBEmulator,
    tokens: SessionTokens,
    http: aiohttp.ClientSession,
    opened: OpenSession,
) -> None:
    few = Storm(answers=5, tokens=30, new=4, per_second=12)
    await everybody_comes_back(few, via, aws_deployment, line, tokens, http, opened)
