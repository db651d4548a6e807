"""What an answer costs in DynamoDB: its read and write units, over a WebSocket and by long polls.

The text is written every 150 ms, and at the defaults. Further cases are a tenant with a key and
recorded usage, and longer prompts.

The emulator bills as DynamoDB does: by the size of items, twice in a transaction, and for each
change of an index. What the tasks' leases cost meanwhile is taken off.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep, time
from typing import Any

import aiohttp
import boto3

from bench import targets
from bench.client import all_idle, all_ready, open_connections
from bench.demo_model import Script
from bench.evenflow import Evenflow, evenflow
from bench.plan import Plan
from bench.report import Outcome, Row, at_most, none_of
from bench.sessions import KEY_ID, SECRET, session_tokens
from bench.verify import Tally, responses
from evenflow.functions.poll_response.long_poll import LongPoll
from evenflow.functions.poll_response.stored_responses import StoredResponses
from evenflow.stream_aws.tables import TableNames
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.protocols.evenflow.long_poll import DEFAULT_TIMEOUT_MS
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT
from tests.integration.aws_emulator import SIGNED_BY
from tests.integration.dynamodb_emulator import DynamoDBEmulator, dynamodb_emulator

TOKENS, TOKEN_MS = 400, 50  # as docs/costs.md has it: 20 s
ANSWERS = 5  # of each kind
FINISH_SECONDS = 15.0  # beyond the 20 s
IDLE_SECONDS = 3.0
SETTLE_SECONDS = 3.0  # usage and the end are written right behind the answer
OFTEN = {"store_interval_ms": 150, "polled_store_interval_ms": 150}
TENANT = "acme"
USUAL = "at the defaults, read by WebSocket"
READ_OPERATIONS = {"BatchGetItem", "GetItem", "Query"}


@dataclass(frozen=True)
class Case:
    """A kind of answer. `prompt_bytes`: the shortest prompt."""

    name: str
    settings: Mapping[str, int] = field(default_factory=dict)
    is_polled: bool = False
    has_key: bool = False
    prompt_bytes: int = 0

    @property
    def tokens(self) -> list[str]:
        return session_tokens(ANSWERS, tenant=TENANT if self.has_key else "public")

    def question(self, script: Script) -> str:
        # Blanks mean nothing to the model.
        return script.question.ljust(self.prompt_bytes)


CASES = (
    Case("every 150 ms, read by WebSocket", OFTEN),
    Case("every 150 ms, read by long polls", OFTEN, is_polled=True),
    Case(USUAL),
    Case("at the defaults, read by long polls", is_polled=True),
    Case("of a tenant with a key", has_key=True),
    *(Case(f"with a prompt of {kb} KB", prompt_bytes=1_024 * kb) for kb in (1, 4, 8, 32, 100)),
)


@dataclass(frozen=True)
class Units:
    """Units of an answer, on average. `text` are those of `written` for chunks of text."""

    written: float
    text: float
    read: float

    def __str__(self) -> str:
        other = self.written - self.text
        return f"{self.text:.1f} for its text, {other:.1f} for the rest; {self.read:.1f} read units"


async def measure(plan: Plan) -> Outcome:
    plan.say(f"store: {ANSWERS} answers of {TOKENS} tokens of each kind, in DynamoDB")
    async with dynamodb_emulator(metered=True) as dynamodb:
        os.environ |= dynamodb.environment  # of this scenario's process, and what it starts
        measured = await asyncio.gather(
            *(_units(dynamodb, f"bench{number}", case) for number, case in enumerate(CASES))
        )
    tally = Tally()
    for _, judged in measured:
        tally += judged
    units = {case.name: units for case, (units, _) in zip(CASES, measured, strict=True)}
    return _outcome(units, tally)


async def _units(dynamodb: DynamoDBEmulator, prefix: str, case: Case) -> tuple[Units, Tally]:
    """The units of answers at a handler of its own, on tables of its own."""
    tables = dynamodb.create_tables(prefix)
    names = ("sessions", "ledger", "responses", "tenants")
    settings: dict[str, Any] = {
        "store": "dynamodb",
        "message_bytes": LARGEST_ITEM_TEXT,
        "tenant_keys": json.dumps({TENANT: secrets.token_urlsafe(32)}),
        "open_tenant": TENANT if case.has_key else "public",
        **{f"{name}_table": f"{prefix}-{name}" for name in names},
        **case.settings,
    }
    async with evenflow(admission={}, **settings) as server:
        meter = partial(_metered, dynamodb, tables)
        before, began = meter(), monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        idle, asked = meter(), monotonic()
        if case.is_polled:
            tally = await _poll(server, dynamodb, tables, case)
        else:
            tally = await _read(server, case)
        await asyncio.sleep(SETTLE_SECONDS)
        seconds, after = monotonic() - asked, meter()
    idle_seconds = asked - began

    def of_an_answer(kind: str) -> float:
        idle_rate = (idle[kind] - before[kind]) / idle_seconds
        return (after[kind] - idle[kind] - idle_rate * seconds) / ANSWERS

    return Units(of_an_answer("written"), of_an_answer("text"), of_an_answer("read")), tally


def _metered(dynamodb: DynamoDBEmulator, tables: TableNames) -> dict[str, float]:
    """Units so far."""
    units = {"written": 0.0, "text": 0.0, "read": 0.0}
    for (table, operation), count in dynamodb.units.items():
        if table == tables.responses and operation == "PutItem":
            continue  # renewals of the task's lease
        if table in {tables.sessions, tables.ledger, tables.responses, tables.tenants}:
            units["read" if operation in READ_OPERATIONS else "written"] += count
            if operation == "BatchWriteItem" and table == tables.responses:
                units["text"] += count
    return units


def _scripts() -> list[Script]:
    return [Script(TOKENS, TOKEN_MS, seed) for seed in range(ANSWERS)]


async def _read(server: Evenflow, case: Case) -> Tally:
    """Ask, and read by WebSocket."""
    connections = await open_connections(server.ws_url, case.tokens)
    await all_ready(connections)
    for connection, script in zip(connections, _scripts(), strict=True):
        connection.ask(case.question(script))
    await all_idle(connections, TOKENS * TOKEN_MS / 1000 + FINISH_SECONDS)
    tally = Tally()
    for connection, script in zip(connections, _scripts(), strict=True):
        tally += responses(connection.frames)[connection.message_id].judged(
            script.answer, must_finish=True
        )
    return tally


async def _poll(
    server: Evenflow, dynamodb: DynamoDBEmulator, tables: TableNames, case: Case
) -> Tally:
    """Ask by HTTP, and read as the function behind long polls does."""
    client = boto3.client("dynamodb", endpoint_url=dynamodb.endpoint, **SIGNED_BY)
    stored = StoredResponses(client, tables.responses)
    async with aiohttp.ClientSession() as http:
        texts = await asyncio.gather(
            *(
                _polled(http, server, stored, token, script)
                for token, script in zip(case.tokens, _scripts(), strict=True)
            )
        )
    wrong = sum(text != script.answer for text, script in zip(texts, _scripts(), strict=True))
    return Tally(responses=ANSWERS, wrong_texts=wrong)


async def _polled(
    http: aiohttp.ClientSession, server: Evenflow, stored: StoredResponses, token: str, ask: Script
) -> str:
    async with http.post(
        f"{server.http_url}/chat/message",
        json={"message_id": "m1", "previous_message_id": None, "payload": {"text": ask.question}},
        headers={"Authorization": f"Bearer {token}"},
    ) as answer:
        answer.raise_for_status()
        response_id = (await answer.json())["response_id"]
    channel = SessionTokens({KEY_ID: SECRET.encode()}).verify(token, time()).channel
    text, next_index = "", 0
    while True:
        poll = LongPoll(
            stored,
            response_id=response_id,
            channel=str(channel),
            from_index=next_index,
            epoch=1,
            patience=DEFAULT_TIMEOUT_MS / 1000,
            shared=False,
            most_waiting=ANSWERS,
            wall_time=time,
            sleep=sleep,
        )
        page = (await asyncio.to_thread(poll.run)).polled.to_body()
        text += str(page["new_text"])
        next_index = page["metadata"]["next_index"]
        if page["status"] in {"completed", "error", "cancelled"}:
            return text


def _outcome(units: Mapping[str, Units], tally: Tally) -> Outcome:
    rows = [
        Row(f"write units of an answer {name}", f"{each.written:.1f}: {each}")
        for name, each in units.items()
    ]
    rows += [
        at_most(
            "write units of an answer", units[USUAL].written, targets.STORE_WRITE_UNITS, "units"
        ),
        none_of("faults in the answers", tally.faults, f"{tally.responses} answers"),
    ]
    figures = {
        name: {"written": each.written, "text": each.text, "read": each.read}
        for name, each in units.items()
    }
    return Outcome("store", rows=rows, figures=figures, faults=tally.faults)
