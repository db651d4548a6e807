"""Tasks are killed at random points of their answers: no accepted message is lost, and no model is
asked twice.

One task with thirty messages here; four with forty each, a hundred and sixty points, in
`make soak`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiobotocore.session import AioSession

from evenflow.stream_aws.dynamodb import client_config
from evenflow.stream_aws.dynamodb_tenant_store import DynamoDBTenantStore
from evenflow.stream_aws.dynamodb_usage_store import DynamoDBUsageStore
from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from tests.integration.answer import Answer
from tests.integration.aws_emulator import SIGNED_BY
from tests.integration.chat_client import ChatSession, call, chat_message
from tests.integration.conftest import Serve
from tests.integration.counting_model import CountingModel, counting_model, word_of, words, words_of
from tests.integration.deployment import AwsDeployment, Deployment
from tests.integration.local_server import LocalServer
from tests.integration.server_process import ServerProcess
from tests.integration.transports import AT_HANDLERS, CutOff, read_whole

_SEED = 4
_TENANT, _KEY = "acme", "evf_acme_0123456789abcdef"
# Of time that is turned: so long after the answers nothing is reserved for them.
_RELEASED_SECONDS = 15
_WORDS = 20
# Every third message is sent so shortly before the kill, or after it, that it is being accepted.
_ACCEPTING_SECONDS = (-0.01, 0.08)
# The victims die one after the other.
_BETWEEN_KILLS = 0.5


@dataclass
class Asked:
    """What became of a message. `accepted`: its sender heard so before the kill."""

    response_id: str
    accepted: bool
    answer: Answer


class Client:
    """One message of one session, sent to a task shortly before it is killed.

    Args:
        session: at that task.
        kill_at: when that is, on the monotonic clock.
        gap_ms: between two words of its answer.
    """

    def __init__(
        self,
        session: ChatSession,
        survivors: Sequence[LocalServer],
        kill_at: float,
        gap_ms: float,
        dice: random.Random,
    ) -> None:
        self._session = session
        self._survivors = dice.sample(survivors, len(survivors))
        self._text = words(_WORDS, gap_ms)
        answer_seconds = _answer_seconds(gap_ms)
        accepting = dice.random() < 1 / 3
        self._send_at = kill_at - dice.uniform(
            *(_ACCEPTING_SECONDS if accepting else (0, 0.9 * answer_seconds))
        )
        self._transport = AT_HANDLERS[dice.choice(sorted(AT_HANDLERS))]
        self._away = dice.uniform(0, answer_seconds)

    async def run(self) -> Asked:
        """Send it and read the answer, wherever it comes from."""
        session = self._session
        await asyncio.sleep(self._send_at - time.monotonic())
        body = chat_message("m1", None, self._text)
        elsewhere = [session.at(survivor) for survivor in self._survivors]
        answer = Answer()
        try:
            posted = await session.call("POST", "/chat/message", body)
            accepted = True
        except aiohttp.ClientError:
            # It may have been accepted: whoever doesn't know sends it again.
            await asyncio.sleep(self._away)
            posted = await elsewhere[0].call("POST", "/chat/message", body)
            accepted = False
        assert posted.status == 202, posted.body
        response_id: str = posted.json["response_id"]
        if accepted:
            try:
                await self._transport(session, response_id, answer, None)
            except CutOff:
                await asyncio.sleep(self._away)
        if answer.end is None:
            await read_whole(self._transport, elsewhere, response_id, answer)
        return Asked(response_id, accepted, answer)


class _UsageOnRecord:
    """What is reserved for the answers of a tenant with a budget, and their usage records."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._table = str(deployment.tables.tenants)

    async def begin(self) -> None:
        """Make the tenant."""
        limits, key = QuotaLimits(tokens_per_day=1_000_000), ApiKey.of_text("k1", _KEY)
        tenant = Tenant(id=_TENANT, keys=(key,), limits=limits)
        async with self._client() as client:
            store = DynamoDBTenantStore(client, self._table, _nothing)
            await store.put(tenant, (await store.load()).revision)

    async def check(self, response_ids: set[str], model: CountingModel, serve: Serve) -> None:
        """Nothing is reserved any more, and each answer has one record, of its last call."""
        async with self._client() as client:
            store = DynamoDBUsageStore(client, self._table, _nothing)
            for _ in range(_RELEASED_SECONDS):
                if not await store.reservations(_TENANT):
                    break
                await serve.time_passes(1.0)
            assert list(await store.reservations(_TENANT)) == []
            today = time.time()
            days = sorted({day_of(today - 60), day_of(today), day_of(today + 3_600)})
            records = [each for day in days for each in await store.records(_TENANT, day)]
            counters = [f"tokens/{day}/tenant" for day in days]
            committed = sum((await store.committed(_TENANT, counters)).values())
        assert sorted(each.response_id for each in records) == sorted(response_ids)
        for each in records:
            call = model.calls_for(each.response_id)[-1]
            said = _WORDS - len(words_of(model.prefixes[f"{each.response_id}:{call}"]))
            assert (each.epoch, each.output_tokens) == (int(call[0]), said)
        assert committed == sum(each.cost.tokens for each in records)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        emulated = {"endpoint_url": self._deployment.environment["AWS_ENDPOINT_URL_DYNAMODB"]}
        async with AioSession().create_client(
            "dynamodb", config=client_config(1), **emulated, **SIGNED_BY
        ) as client:
            yield client


def _nothing() -> None:
    """A retry."""


async def _open_session(http: aiohttp.ClientSession, http_url: str) -> ChatSession:
    headers = {"Authorization": f"Bearer {_KEY}"}
    answer = await call(http, "POST", f"{http_url}/session", {"tenant": _TENANT}, headers=headers)
    assert answer.status == 201, answer.body
    return ChatSession(http, answer.json)


def _answer_seconds(gap_ms: float) -> float:
    return _WORDS * gap_ms / 1000


def _expected(response_id: str, last_call: str, model: CountingModel) -> str:
    """What the last call was to continue, if anything, and what it said."""
    prefix = words_of(model.prefixes[f"{response_id}:{last_call}"])
    epoch, attempt = map(int, last_call.split(":"))
    said = [(epoch, attempt, number) for number in range(len(prefix), _WORDS)]
    assert prefix == [(1, 1, number) for number in range(len(prefix))]
    return "".join(word_of(*word) for word in prefix + said)


async def _kill(victim: ServerProcess, at: float) -> None:
    await asyncio.sleep(at - time.monotonic())
    victim.kill()


async def kill_points(
    victims: int,
    messages_each: int,
    gap_ms: float,
    deployment: Deployment,
    serve: Serve,
    http: aiohttp.ClientSession,
) -> set[bool]:
    """So many tasks are killed, one after the other, each of which has so many messages.

    Returns whether what was begun again went on where the text ended: True, False, or both.
    """
    dice = random.Random(_SEED)
    usage = _UsageOnRecord(deployment)
    await usage.begin()
    async with counting_model() as model:
        killed = await deployment.handlers(victims, model="openai", model_url=model.url)
        surviving = AwsDeployment(deployment.environment, deployment.tables, serve)
        survivors = [
            await surviving.handler(model="openai", model_url=model.url, model_continues=continues)
            for continues in (True, False)
        ]
        sessions = [
            [await _open_session(http, victim.http_url) for _ in range(messages_each)]
            for victim in killed
        ]
        first_kill = time.monotonic() + _answer_seconds(gap_ms)
        kills = [first_kill + place * _BETWEEN_KILLS for place in range(victims)]
        clients = [
            Client(session, survivors, kill_at, gap_ms, dice)
            for at_victim, kill_at in zip(sessions, kills, strict=True)
            for session in at_victim
        ]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(client.run()) for client in clients]
            for victim, kill_at in zip(killed, kills, strict=True):
                await _kill(victim, kill_at)
            await surviving.lease_runs_out()
    asked = [client.result() for client in running]

    interrupted = [each for each in asked if each.answer.epoch == 2]
    assert len(interrupted) >= len(asked) / 2
    assert not all(each.accepted for each in asked)
    assert set(model.calls.values()) == {1}
    for each in asked:
        assert each.answer.finish_reason == "stop"
        calls = model.calls_for(each.response_id)
        # Killed before its model was called, during the call, or not at all.
        assert calls in (["2:2"], ["1:1", "2:2"], ["1:1"])
        assert each.answer.text == _expected(each.response_id, calls[-1], model)
    # One response for each message, and the model was asked for no other.
    assert len({each.response_id for each in asked}) == len(asked)
    assert {key.partition(":")[0] for key in model.calls} == {each.response_id for each in asked}
    await usage.check({each.response_id for each in asked}, model, serve)
    taken = [await survivor.metric("lease_take_overs_total") for survivor in survivors]
    assert sum(taken) == len(interrupted)
    return {bool(model.prefixes[key]) for key in model.calls if key.endswith(":2:2")}


async def test_no_accepted_message_is_lost_and_none_is_paid_for_twice(
    process_deployment: Deployment, serve: Serve, http: aiohttp.ClientSession
) -> None:
    await kill_points(1, 30, 100.0, process_deployment, serve, http)
