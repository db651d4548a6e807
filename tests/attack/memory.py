"""Attacks on memory: much that is kept for a while, from one sender."""

from __future__ import annotations

import asyncio
import json
from time import monotonic

from tests.attack.asking import BROKEN, chat_message
from tests.attack.attack import Scene, attack
from tests.attack.tokens import session_token
from tests.attack.verdict import MIB
from tests.attack.wire import Connection, bearer

REQUESTS = "requests_held_bytes"
BODIES = "bodies_per_node"
_SENDERS = 64
_KIB = 1_024
_CONVERSATIONS, _CONVERSATION_KIB = 12_000, 96
# The text, a byte for each delta, what is in the conversation, and what each answer takes.
_ANSWER_KIB = 6
# The first ones also fill what is filled once.
_WARM = 1_000


@attack(
    "conversations",
    short=True,
    fills=(REQUESTS, "conversations_held_bytes"),
    stores_mib=_CONVERSATIONS * _CONVERSATION_KIB / _KIB,
)
async def conversations(scene: Scene) -> None:
    """12,000 sessions without a key say 32 KB each, with an emoji in it, and never come back."""
    numbers = iter(range(scene.scaled(_CONVERSATIONS)))
    question = "what does this mean: 🙂" + "x" * (32_000 - 30)
    before, accepted = scene.target.resident_bytes, 0

    async def send(connection: Connection) -> None:
        nonlocal accepted
        for _ in numbers:
            connection.send(scene.attacker.request("POST", "/session"))
            opened = await connection.reply()
            if opened.status != 201:
                if not opened.status:
                    return
                continue
            headers = bearer(opened.json["token"])
            body = json.dumps(chat_message("m1", None, question), ensure_ascii=False).encode()
            connection.send(scene.attacker.request("POST", "/chat/message", body, headers))
            posted = await connection.reply()
            if posted.status == 202:
                accepted += 1
                cancel = f"/chat/message/{posted.json['response_id']}/cancel"
                connection.send(scene.attacker.request("POST", cancel, headers=headers))
                await connection.reply()

    await asyncio.gather(*[send(await scene.attacker.connect()) for _ in range(_SENDERS)])
    each = (scene.target.resident_bytes - before) / max(1, accepted) / _KIB
    scene.did(f"{accepted:,} conversations accepted, {each:.0f} KiB each")
    scene.must(accepted > 0, "none was accepted")
    scene.must(each < _CONVERSATION_KIB, f"{each:.0f} KiB are kept of a conversation of 32 KB")


@attack("ended-answers", fills=(REQUESTS, "responses_held_bytes"))
async def ended_answers(scene: Scene) -> None:
    """Thousands of small answers end, and are kept to be read once more."""
    until = monotonic() + 2 * scene.plan.strike_seconds
    question = "#demo tokens=200 gap_ms=0 first_token_ms=0"
    before, ended = 0, 0

    async def ask(connection: Connection) -> None:
        nonlocal before, ended
        while monotonic() < until:
            headers, previous = bearer(session_token()), None
            for number in range(24):
                message = chat_message(f"m{number}", previous, question)
                body = json.dumps(message).encode()
                connection.send(scene.attacker.request("POST", "/chat/message", body, headers))
                posted = await connection.reply()
                if posted.status != 202:
                    break
                previous = f"m{number}"
                path = f"/chat/message/{posted.json['response_id']}/events"
                connection.send(scene.attacker.request("GET", path, headers=headers))
                await connection.reply()
                ended += 1
                if ended == _WARM:
                    before = scene.target.resident_bytes

    await asyncio.gather(*[ask(await scene.attacker.connect()) for _ in range(_SENDERS)])
    if ended < 2 * _WARM:
        scene.must(False, f"only {ended:,} answers ended")
        return
    each = (scene.target.resident_bytes - before) / (ended - _WARM) / _KIB
    scene.did(f"{ended:,} answers, {each:.1f} KiB each")
    scene.must(each < _ANSWER_KIB, f"{each:.1f} KiB are kept of an answer of 1.2 KB")


@attack("large-requests", fills=(REQUESTS, BODIES))
async def large_requests(scene: Scene) -> None:
    """400 requests of 4 MiB are sent to /v1, but for their last byte."""
    size = 4 * MIB - 64
    head = scene.attacker.request(
        "POST",
        "/v1/chat/completions",
        headers={"Content-Type": "application/json", "Content-Length": str(size)},
    )
    block = b" " * 65_536

    async def send() -> None:
        connection = await scene.attacker.connect()
        connection.send(head)
        left = size - 1
        while left > 0 and not connection.writer.is_closing():
            connection.send(block[: min(left, len(block))])
            left -= len(block)
            await connection.writer.drain()

    async def refused() -> None:
        try:
            async with asyncio.timeout(scene.plan.strike_seconds):
                await send()
        except BROKEN:
            return  # that is what should become of it

    count = scene.scaled(400)
    await asyncio.gather(*[refused() for _ in range(count)])
    await asyncio.sleep(scene.plan.strike_seconds / 2)
    scene.did(f"{count:,} requests of 4 MiB, never ended")
