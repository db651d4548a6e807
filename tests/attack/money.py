"""Attacks on what costs money, and on the reports of it."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from time import monotonic

from evenflow.stream_core.tenants.usage import UsageRecord
from tests.attack.asking import BROKEN
from tests.attack.attack import Judged, Scene, attack
from tests.attack.tokens import HOSTILE, KEYED, TENANT_KEYS
from tests.attack.wire import bearer
from tests.integration.server_process import ROOT, clean_environment

_RECORDS, _DAYS, _USERS = 300_000, 30, 500
_ROWS_AT_ONCE, _PAUSE_SECONDS = 1_000, 0.02
_REPORTERS = 32
_BOUND, _LONGEST = 1_200, 50
# A server knows a new tenant within 5 s.
_RECORDS_SECONDS, _SETTLED_SECONDS = 10.0, 5.0
_PRICED = {"EVENFLOW_MODEL_PRICES": "demo=900000/900000"}
_CHAT, _RESPONSES = "/v1/chat/completions", "/v1/responses"
_LENGTHS: tuple[tuple[str, dict[str, object]], ...] = (
    (_CHAT, {"max_tokens": _LONGEST}),
    (_CHAT, {"max_tokens": -1}),
    (_CHAT, {"max_completion_tokens": 0}),
    (_CHAT, {"max_tokens": _LONGEST, "n_predict": 20_000}),
    (_CHAT, {"max_tokens": _LONGEST, "options": {"num_predict": 20_000}}),
    (_CHAT, {"max_tokens": _LONGEST, "best_of": 20}),
    (_CHAT, {"max_tokens": _LONGEST, "a_length_of_tomorrow": 20_000}),
    (_CHAT, {"maxNewTokens": _LONGEST}),
    (_RESPONSES, {"max_output_tokens": _LONGEST, "max_tokens": 20_000}),
    (_RESPONSES, {"max_output_tokens": _LONGEST, "a_length_of_tomorrow": 20_000}),
    (_RESPONSES, {"max_completion_tokens": 20_000}),
)


def _days() -> str:
    last = datetime.now(UTC).date()
    return f"from={last - timedelta(days=2 * _DAYS)}&to={last}"


_INSERT_RECORDS = """
WITH RECURSIVE
    numbers (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :last)
INSERT INTO usage_records SELECT :tenant, printf('rsp_%032d', n),
    date(:now - 86400 * (n % :days), 'unixepoch'), 'user-' || (n / :days % :users), :record, '{}',
    :now + 7776000 FROM numbers
"""
_SELECT_TOTALS = """
SELECT tenant, user, day, 'demo', count(*), 100 * count(*), 200 * count(*), 0, 0, 0, max(expires_at)
FROM usage_records WHERE tenant = :tenant GROUP BY user, day
UNION ALL
SELECT tenant, '', day, 'demo', count(*), 100 * count(*), 200 * count(*), 0, 0, 0, max(expires_at)
FROM usage_records WHERE tenant = :tenant GROUP BY day
"""


def _fill(path: str, records: int) -> None:
    """Put a tenant's answers of a month into the store, a few at a time: no request waits."""
    record = UsageRecord(
        tenant=HOSTILE, response_id="rsp", agent="demo", user="user", key="", model="demo",
        state="completed", ended_at=time.time(), input_tokens=100, output_tokens=200,
    )  # fmt: skip
    values: dict[str, object] = {
        "tenant": HOSTILE,
        "now": int(time.time()),
        "days": _DAYS,
        "users": _USERS,
        "record": record.to_text(),
    }
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        connection.execute("PRAGMA synchronous=NORMAL")
        for first in range(0, records, _ROWS_AT_ONCE):
            last = min(records, first + _ROWS_AT_ONCE)
            connection.execute(_INSERT_RECORDS, values | {"first": first, "last": last})
            time.sleep(_PAUSE_SECONDS)
        totals = connection.execute(_SELECT_TOTALS, values).fetchall()
        for first in range(0, len(totals), _ROWS_AT_ONCE):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                f"INSERT INTO usage_totals VALUES ({', '.join('?' * 11)})",  # noqa: S608
                totals[first : first + _ROWS_AT_ONCE],
            )
            connection.execute("COMMIT")
            time.sleep(_PAUSE_SECONDS)


@attack("usage-reports", short=True, settings=KEYED, stores_mib=640.0)
async def usage_reports(scene: Scene) -> None:
    """A tenant with 300,000 answers in a month asks for reports of them, over 32 connections."""
    replies, records = Counter[str](), scene.scaled(_RECORDS)
    await asyncio.to_thread(_fill, scene.target.variables["EVENFLOW_STORE_PATH"], records)
    headers = bearer(TENANT_KEYS[HOSTILE])
    request = scene.attacker.request("GET", f"/usage?{_days()}", headers=headers)
    over_at = monotonic() + scene.plan.strike_seconds

    async def report() -> None:
        while monotonic() < over_at:
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    while monotonic() < over_at:
                        connection.send(request)
                        reply = await connection.reply()
                        replies[str(reply.status)] += 1
                        if reply.status != 200:
                            break

    await asyncio.gather(*[report() for _ in range(_REPORTERS)])
    statuses = ", ".join(f"{count:,} times {status}" for status, count in replies.items())
    scene.did(f"{records:,} records; {statuses}")
    scene.must(replies["200"] > 0, "no report was given")


async def _budgeted(scene: Scene, tenant: str) -> str:
    """Add a tenant with a budget, and wait until the server knows it. Returns its key."""
    command = ("-m", "evenflow", "tenants", "add", tenant, "--tokens-per-day", str(_BOUND))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=ROOT,
        env=clean_environment(scene.target.variables),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    key = output.decode().strip()
    async with asyncio.timeout(_RECORDS_SECONDS):
        while (await _report(scene, key)).get("tenant") != tenant:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return key


async def _report(scene: Scene, key: str) -> dict[str, object]:
    return (await scene.other.call("GET", "/usage", headers=bearer(key))).json


async def _settled(scene: Scene, key: str) -> int | None:
    """What is committed of the budget once nothing is reserved. None: something still is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_SETTLED_SECONDS):
            while True:
                report = await _report(scene, key)
                budgets = report.get("budgets")
                if report.get("answers_reserved") == 0 and isinstance(budgets, list):
                    return int(budgets[0]["committed"])
                await asyncio.sleep(0.2)
    return None


def _request(path: str, behaviour: str) -> dict[str, object]:
    question = f"#attack {behaviour}"
    if path == _RESPONSES:
        return {"model": "demo", "input": question}
    return {"model": "demo", "messages": [{"role": "user", "content": question}]}


@attack(
    "lengths-by-other-names",
    Judged.BY_OUTCOME,
    hostile_model=True,
    settings=KEYED | _PRICED,
)
async def lengths_by_other_names(scene: Scene) -> None:
    """A tenant with 1,200 tokens a day asks for 50 by a name that is reserved, and for 20,000 by
    other names. Its model gives 20,000 in any case.
    """
    key, answered = await _budgeted(scene, "spender"), 0
    for path, parameters in _LENGTHS:
        body = {**_request(path, "deaf-to-lengths"), **parameters}
        reply = await scene.attacker.call("POST", path, body, bearer(key))
        scene.must(reply.status in (200, 400, 429), f"{parameters} is answered {reply.status}")
        answered += reply.status == 200
    committed = await _settled(scene, key)
    # The estimate of the input is eight for the turn, and one for every three bytes.
    each = 8 + -(-len("#attack deaf-to-lengths") // 3) + _LONGEST + 1
    scene.did(f"{answered} of {len(_LENGTHS)} answered, {committed} committed of {_BOUND}")
    scene.must(answered > 0, "nothing was answered")
    scene.must(
        committed is not None and committed <= answered * each,
        f"{committed} tokens are committed, for {answered} answers of {each} at most",
    )


@attack(
    "absurd-usage",
    Judged.BY_OUTCOME,
    hostile_model=True,
    settings=KEYED | _PRICED,
)
async def absurd_usage(scene: Scene) -> None:
    """The model reports 2^62 tokens, and then 10^12. Of neither more is charged than can be true,
    and the answers of others are settled.
    """
    absurd, other = await asyncio.gather(*[_budgeted(scene, name) for name in ("absurd", "other")])
    honest = {"model": "demo", "messages": [{"role": "user", "content": "#demo tokens=1 seed=5"}]}
    for behaviour in ("impossible-usage", "absurd-usage"):
        body = {**_request(_CHAT, behaviour), "max_tokens": _LONGEST}
        reply = await scene.attacker.call("POST", _CHAT, body, bearer(absurd))
        scene.must(reply.status == 200, f"{behaviour}: answered {reply.status}")
        body = {**honest, "max_tokens": _LONGEST}
        await scene.other.call("POST", _CHAT, body, bearer(other))
        committed = [await _settled(scene, key) for key in (absurd, other)]
        scene.did(f"{behaviour}: {committed} committed")
        scene.must(None not in committed, f"{behaviour}: an end is not settled: {committed}")
        scene.must((committed[0] or 0) < _BOUND, f"{behaviour}: it is counted: {committed}")
    scene.must("can't be used" not in scene.target.log, "the store was taken for broken")
