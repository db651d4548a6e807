"""Attacks on content filters and on shares: slow texts, secrets that come late, places taken."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from time import monotonic

from tests.attack.asking import BROKEN, ask_events, ask_openai, chat_message
from tests.attack.attack import Judged, Scene, attack
from tests.attack.tokens import session_token
from tests.attack.wire import bearer

_ALL = "secrets,email,phone,card,iban,ssn"
_HOLD = {"EVENFLOW_FILTERING": "hold", "EVENFLOW_FILTER_PATTERNS": _ALL}
_RETRACT = {"EVENFLOW_FILTERING": "retract"}
_AT_ONCE, _LISTENERS = 40, 100
_LONG = "#demo tokens=2000 gap_ms=50"
_DELTA = re.compile(rb'"delta":"([^"]*)"')
_HEARTBEAT_SECONDS = 25  # the default


@attack("beginnings-of-matches", short=True, settings=_HOLD, hostile_model=True)
async def beginnings_of_matches(scene: Scene) -> None:
    """40 answers at a time consist of beginnings of matches of the filters."""
    over_at, answers = monotonic() + scene.plan.strike_seconds, 0

    async def ask() -> None:
        nonlocal answers
        while monotonic() < over_at:
            answers += 1
            with suppress(*BROKEN):
                question = "#attack beginnings-of-matches"
                await ask_events(scene.attacker, session_token(), "m1", None, question)

    tasks = [asyncio.create_task(ask()) for _ in range(_AT_ONCE)]
    await asyncio.wait(tasks, timeout=scene.plan.strike_seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    scene.did(f"{answers} answers")


@attack("key-taken-back", Judged.BY_OUTCOME, short=True, settings=_RETRACT, hostile_model=True)
async def key_taken_back(scene: Scene) -> None:
    """Text is shown and taken back: no later reader gets it, and no cache keeps it for long."""
    opened = await scene.other.call("POST", "/session", {})
    session, token = opened.json["session_id"], opened.json["token"]
    first = await ask_events(scene.other, token, "m1", None, "#attack key-by-letters")
    scene.must("[redacted]" in first.text, f"not taken back: {first.text!r} {first.error}")
    share_path = f"/session/{session}/share"
    share = bearer((await scene.other.call("POST", share_path, {}, bearer(token))).json["token"])
    chat = f"/chat/message/{first.response_id}"
    paths = (f"{chat}/events", f"/streams/{first.response_id}", f"{chat}/entries/1/0-2")
    for path in (*paths, f"{chat}?from_index=0&timeout_ms=0", f"/session/{session}/messages"):
        answer = await scene.attacker.call("GET", path, headers=share)
        scene.must(answer.status == 200, f"{path}: {answer.code}")
        late_text = b"".join(_DELTA.findall(answer.body))
        scene.must(b"AKIA" not in late_text + answer.body, f"{path}: it has what was taken back")
        cached = answer.headers.get("cache-control", "").partition("max-age=")[2].partition(",")[0]
        scene.must(int(cached or 0) <= _HEARTBEAT_SECONDS, f"{path}: cached for {cached} s")


@attack("key-around-a-source", Judged.BY_OUTCOME, short=True, settings=_HOLD, hostile_model=True)
async def key_around_a_source(scene: Scene) -> None:
    """A source comes in the middle of a key, which the filters must find."""
    question = "#attack key-around-a-source"
    for answer in (
        await ask_events(scene.attacker, session_token(), "m1", None, question),
        await ask_openai(scene.attacker, question),
    ):
        scene.must(answer.text == "Your key is [redacted], so.", f"{answer.text!r} {answer.error}")


@attack("share-takes-places", Judged.BY_OUTCOME, short=True)
async def share_takes_places(scene: Scene) -> None:
    """A share takes all places for listeners of presence, and asks for names."""
    opened = await scene.other.call("POST", "/session", {"user": "alice"})
    session, own = opened.json["session_id"], bearer(opened.json["token"])
    posted = await scene.other.call("POST", "/chat/message", chat_message("m1", None, _LONG), own)
    chat = f"/chat/message/{posted.json['response_id']}"
    shared = await scene.other.call("POST", f"/session/{session}/share", {}, own)
    share = bearer(shared.json["token"])
    reading = await scene.other.connect()
    reading.send(scene.other.request("GET", f"{chat}/events", headers=own))
    await reading.head()
    listeners = 0
    for _ in range(_LISTENERS + 1):
        listening = await scene.attacker.connect()
        listening.send(scene.attacker.request("GET", f"{chat}/presence", headers=share))
        head = await listening.head()
        listeners += head.status == 200
        if listeners == 1:
            async for line in listening.body_lines(head):
                if line.startswith(b"data:"):
                    scene.must(b"alice" not in line, "the share shows a name")
                    break
    scene.did(f"{listeners} listeners of one share")
    listening = await scene.other.connect()
    listening.send(scene.other.request("GET", f"{chat}/presence", headers=own))
    head = await listening.head()
    scene.must(head.status == 200, f"the session's own listener: {head.status}")
    await scene.other.call("POST", f"{chat}/cancel", headers=own)
