"""What an answer costs by feature: CPU milliseconds of the server, beside those at the defaults.

In each round every case runs once, on a server of its own. Its answers begin at once, as chats by
WebSocket: first with one token each, which shows what an answer costs before it streams. The
server's CPU includes the process that writes the SQLite file. The collector of traces and the
emulator of DynamoDB are in the load's process, and not counted.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from aiohttp import web

from bench import targets
from bench.awake import awake
from bench.client import Connection, all_idle, all_ready, open_connections
from bench.evenflow import ADMISSION, Evenflow, evenflow, settings_row
from bench.plan import Plan
from bench.report import Outcome, Row, at_most, none_of
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.verify import Tally
from evenflow.opened_store import open_tenants
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from tests.integration.dynamodb_emulator import dynamodb_emulator

TOKEN_MS = 20
ANSWER_SECONDS = 4.0  # of 200 tokens, and some 80 frames
ONE_TOKEN_SECONDS = TOKEN_MS / 1_000
ASKED_WITHIN_SECONDS = 0.1
SETTLE_SECONDS = 0.5  # the end and the usage are written right behind the answer
FINISH_SECONDS = 60.0
TENANT, KEY_ID = "acme", "k1"
TABLES = ("sessions", "ledger", "responses", "tenants")
PLAIN, TRACED = "the defaults (a SQLite file)", "traces, as many as by default"


@dataclass(frozen=True)
class Case:
    """A way to configure the server. `environment`: variables that are not Evenflow's."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    has_key: bool = False

    def tokens(self, count: int) -> list[str]:
        return (
            session_tokens(count, tenant=TENANT, key=KEY_ID)
            if self.has_key
            else session_tokens(count)
        )


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds of the server for one answer."""

    whole: float
    first_token: float  # of one that has no other token


class Collector:
    """Takes spans over OTLP."""

    def __init__(self) -> None:
        self.url = ""
        self.bytes_taken = 0

    async def take(self, request: web.Request) -> web.Response:
        """`POST /v1/traces`."""
        self.bytes_taken += len(await request.read())
        return web.Response(content_type="application/x-protobuf")


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Serve one until the block ends."""
    collector, app = Collector(), web.Application(client_max_size=2**26)
    app.add_routes([web.post("/v1/traces", collector.take)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


async def measure(plan: Plan) -> Outcome:
    tally = Tally()
    costs: dict[str, list[Cost]] = {}
    async with collecting() as collector, dynamodb_emulator() as dynamodb:
        for number in range(1, plan.feature_rounds + 1):
            tables = f"bench{number}"
            dynamodb.create_tables(tables)
            with TemporaryDirectory() as folder:
                file = await _file_with_tenant(Path(folder))
                for case in _cases(collector.url, file, tables, dynamodb.environment):
                    cost = await _cost(plan, case, tally)
                    costs.setdefault(case.name, []).append(cost)
                    plan.say(f"features {number}/{plan.feature_rounds}: {case.name}: {cost}")
    if not collector.bytes_taken:
        raise RuntimeError("the server has exported nothing")
    return _outcome(plan, costs, tally)


def _cases(
    collector_url: str, file: Path, tables: str, emulator: Mapping[str, str]
) -> Sequence[Case]:
    exported = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector_url}
    sampled = {"OTEL_TRACES_SAMPLER": "always_on"}
    names = {f"{name}_table": f"{tables}-{name}" for name in TABLES}
    return (
        Case(PLAIN),
        Case("kept in memory alone", {"store": "memory"}),
        Case("a tenant with a key and a budget", {"store_path": file}, has_key=True),
        Case("a content filter, hold", {"filtering": "hold"}),
        Case(TRACED, environment=exported),
        Case("traces of all answers", environment=exported | sampled),
        Case("DynamoDB", {"store": "dynamodb"} | names, emulator),
    )


async def _file_with_tenant(folder: Path) -> Path:
    """A store's file with a tenant whose budget is larger than what is asked."""
    path = folder / "evenflow.db"
    limits = QuotaLimits(tokens_per_day=2**40)
    key = ApiKey.of_text(KEY_ID, "evf_acme_0123456789abcdef")
    async with open_tenants(str(path)) as opened:
        await opened.store.put(Tenant(id=TENANT, keys=(key,), limits=limits), 0)
    return path


async def _cost(plan: Plan, case: Case, tally: Tally) -> Cost:
    with patch.dict(os.environ, case.environment):
        async with evenflow(**case.settings) as server:
            tokens = case.tokens(plan.feature_answers)
            connections = await open_connections(server.ws_url, tokens)
            await all_ready(connections)
            await answer_ms(server, connections, ONE_TOKEN_SECONDS, tally)  # warms it up
            first_token = await answer_ms(server, connections, ONE_TOKEN_SECONDS, tally)
            whole = await answer_ms(server, connections, ANSWER_SECONDS, tally)
    return Cost(whole, first_token)


async def answer_ms(
    server: Evenflow, connections: Sequence[Connection], seconds: float, tally: Tally
) -> float:
    """CPU milliseconds of an answer of this length, where each connection asks for one at once."""
    for connection in connections:
        connection.forget()
    streams = Streams(connections, seconds=seconds, token_ms=TOKEN_MS)
    async with awake():
        usage = server.process.usage()
        await streams.begin(ASKED_WITHIN_SECONDS)
        await all_idle(connections, seconds + FINISH_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        used = server.process.usage() - usage
    tally += streams.judge()
    return 1_000 * used.server / len(connections)


def _outcome(plan: Plan, costs: Mapping[str, Sequence[Cost]], tally: Tally) -> Outcome:
    plain = costs[PLAIN]
    traced = [
        100 * (1 - alone.whole / cost.whole)
        for alone, cost in zip(plain, costs[TRACED], strict=True)
    ]
    return Outcome(
        "features",
        rows=[
            *(
                Row(f"server CPU of an answer, {name}", _described(each, plain))
                for name, each in costs.items()
            ),
            at_most(
                "of a CPU second, what traces cost",
                median(traced),
                targets.TRACING_PERCENT,
                "%",
                f"rounds: {', '.join(f'{cost:.1f}' for cost in traced)}",
            ),
            none_of("gaps, duplicates, wrong texts", tally.faults, f"{tally.deltas:,} deltas"),
            settings_row("features", **ADMISSION),
        ],
        figures={
            "answers_at_once": plan.feature_answers,
            "cpu_ms": {
                name: {
                    "whole": [round(cost.whole, 3) for cost in it],
                    "first_token": [round(cost.first_token, 3) for cost in it],
                }
                for name, it in costs.items()
            },
        },
        faults=tally.faults,
    )  # fmt: skip


def _described(costs: Sequence[Cost], plain: Sequence[Cost]) -> str:
    whole = median(cost.whole for cost in costs)
    first_token = median(cost.first_token for cost in costs)
    text = f"{whole:.2f} ms, {first_token:.2f} of it until the first token"
    if costs is plain:
        return text
    more = [100 * (cost.whole / alone.whole - 1) for cost, alone in zip(costs, plain, strict=True)]
    return f"{text}: {median(more):+.0f} % ({min(more):+.0f} to {max(more):+.0f})"
