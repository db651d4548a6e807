"""Attacks on what all share: places of answers, the queue, rates and keys, taken by one sender."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

from tests.attack.asking import BROKEN, ask_events, ask_openai, chat_message
from tests.attack.attack import Scene, attack
from tests.attack.memory import REQUESTS
from tests.attack.tokens import session_token
from tests.attack.wire import Connection, bearer
from tests.integration.raw_websocket import text_frame

_SENDERS = 64
_AHEAD_SECONDS = 4.0
_SOCKETS, _ANSWERS_EACH = 250, 4
_REALTIME = "evenflow.realtime.v1"
_AGED_SECONDS = 120.0
_HONEST_QUESTION = "#demo tokens=4 gap_ms=0 seed=11"


@attack("without-credit", fills=(REQUESTS, "running_held_bytes"), hostile_model=True)
async def without_credit(scene: Scene) -> None:
    """250 WebSockets have four answers begun each, and grant no credit: 1,000 places are held."""
    question = "#attack endless-answer"
    started = 0

    async def hold() -> None:
        nonlocal started
        with suppress(*BROKEN):
            connection = await scene.attacker.connect()
            websocket = await connection.upgraded(session_token(), "/realtime", _REALTIME)
            if websocket.status != 101:
                return
            previous = None
            for number in range(_ANSWERS_EACH):
                message = {"type": "start", "id": f"m{number}", "text": question, "credit": 0}
                websocket.write(text_frame({**message, "previous": previous}))
                previous = f"m{number}"
                told = await websocket.next_of("started", "error")
                started += told["type"] == "started"

    # Places are all or nothing: as many as there are also in the short form.
    await asyncio.gather(*[hold() for _ in range(_SOCKETS)])
    # After a while the model is ahead of all of them, and only credit is waited for.
    await asyncio.sleep(_AHEAD_SECONDS + scene.plan.strike_seconds)
    scene.did(f"{started:,} answers without credit")
    scene.must(started > 0, "none was begun")


@attack("made-up-tenants", short=True, fills=(REQUESTS,))
async def made_up_tenants(scene: Scene) -> None:
    """One sender asks for 2,500 long answers, each in the name of a tenant of its own."""
    numbers, accepted = iter(range(2_500)), 0
    question = "#demo tokens=600 gap_ms=1000"

    async def send(connection: Connection) -> None:
        nonlocal accepted
        for number in numbers:
            tenant = json.dumps({"tenant": f"made-up-{number}"}).encode()
            connection.send(scene.attacker.request("POST", "/session", tenant))
            opened = await connection.reply()
            if opened.status != 201:
                continue
            message = json.dumps(chat_message("m1", None, question)).encode()
            headers = bearer(opened.json["token"])
            connection.send(scene.attacker.request("POST", "/chat/message", message, headers))
            posted = await connection.reply()
            accepted += posted.status == 202

    await asyncio.gather(*[send(await scene.attacker.connect()) for _ in range(_SENDERS)])
    await asyncio.sleep(scene.plan.strike_seconds)
    scene.did(f"{accepted:,} of 2,500 answers accepted")


@attack("returning-clients")
async def returning_clients(scene: Scene) -> None:
    """One sender comes back without an end, each time as another session with an older token."""
    until = monotonic() + scene.plan.strike_seconds
    tokens = [session_token(age_seconds=_AGED_SECONDS) for _ in range(2_000)]
    each, came, admitted = itertools.cycle(tokens), 0, 0

    async def come_back() -> None:
        nonlocal came, admitted
        while monotonic() < until:
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    websocket = await connection.upgraded(next(each))
                    came += 1
                    admitted += websocket.status == 101

    await asyncio.gather(*[come_back() for _ in range(_SENDERS)])
    scene.did(f"{came:,} returns, {admitted:,} let in")


@attack("made-up-keys", fills=(REQUESTS, "responses_held_bytes"), stores_mib=256)
async def made_up_keys(scene: Scene) -> None:
    """58,000 requests with idempotency keys that nobody will send again."""
    honest_key, session = {"Idempotency-Key": secrets.token_hex(8)}, session_token()
    first = await ask_openai(scene.other, _HONEST_QUESTION, honest_key)
    told = await ask_events(scene.other, session, "m1", None, _HONEST_QUESTION)
    scene.must(not first.error and not told.error, f"nothing works: {first.error}{told.error}")
    sent = await _send_keys(scene, iter(range(58_000)))
    scene.did(f"{sent:,} keys")
    again = await ask_openai(scene.other, _HONEST_QUESTION, honest_key)
    scene.must(
        _answer_of(again.response_id) == _answer_of(first.response_id),
        f"an honest key was answered anew {again.error}",
    )
    second = await ask_events(scene.other, session, "m2", "m1", _HONEST_QUESTION)
    scene.must(not second.error, f"an honest second message was refused: {second.error}")


async def _send_keys(scene: Scene, numbers: Iterator[int]) -> int:
    until, sent = monotonic() + 8 * scene.plan.strike_seconds, 0
    question = [{"role": "user", "content": "#demo tokens=0 first_token_ms=0"}]
    body = json.dumps({"model": "demo", "messages": question}).encode()

    async def send(connection: Connection) -> None:
        nonlocal sent
        for _ in numbers:
            if monotonic() > until or connection.writer.is_closing():
                return
            headers = {
                "Content-Type": "application/json",
                "Idempotency-Key": secrets.token_hex(8),
            }
            path = "/v1/chat/completions"
            connection.send(scene.attacker.request("POST", path, body, headers))
            await connection.reply()
            sent += 1

    await asyncio.gather(*[send(await scene.attacker.connect()) for _ in range(_SENDERS)])
    return sent


def _answer_of(response_id: str) -> str:
    return response_id.partition(".")[0]


@attack("replays")
async def replays(scene: Scene) -> None:
    """24 WebSockets of three sessions resume a long answer from its beginning, again and again."""
    question = "#demo tokens=60000 gap_ms=0 first_token_ms=0"
    until, counts = monotonic() + scene.plan.strike_seconds, Counter[str]()

    async def resume(token: str, response_id: str) -> None:
        with suppress(*BROKEN):
            websocket = await (await scene.attacker.connect()).upgraded(token)
            while monotonic() < until:
                frame = {"type": "response.resume", "response_id": response_id, "after": -1}
                websocket.write(text_frame(frame))
                reply = await websocket.next_of("chat.response.completed", "throttle")
                counts[reply["type"]] += 1

    async def attack_session(token: str) -> None:
        answered = await ask_events(scene.attacker, token, "m1", None, question)
        await asyncio.gather(*[resume(token, answered.response_id) for _ in range(8)])

    with suppress(TimeoutError):
        async with asyncio.timeout(2 * scene.plan.strike_seconds):
            await asyncio.gather(*[attack_session(session_token()) for _ in range(3)])
    scene.did(f"{dict(counts)}")


@attack("entries-one-by-one")
async def entries_one_by_one(scene: Scene) -> None:
    """20 event streams at a time ask for a long answer entry by entry (`joined=0`)."""
    token = session_token()
    question = "#demo tokens=20000 gap_ms=0 first_token_ms=0"
    answered = await ask_events(scene.attacker, token, "m1", None, question)
    path = f"/chat/message/{answered.response_id}/events?joined=0"
    until, read = monotonic() + scene.plan.strike_seconds, 0

    async def follow() -> None:
        nonlocal read
        while monotonic() < until:
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    connection.send(scene.attacker.request("GET", path, headers=bearer(token)))
                    head = await connection.head()
                    async for line in connection.body_lines(head):
                        read += len(line)

    with suppress(TimeoutError):
        async with asyncio.timeout(scene.plan.strike_seconds + 1):
            await asyncio.gather(*[follow() for _ in range(20)])
    scene.did(f"{len(answered.text):,} characters, {read:,} bytes read")
