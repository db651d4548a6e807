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
_LONGEST_KEPT_SECONDS = 30


@attack("beginnings-of-matches", short=True, settings=_HOLD, hostile_model=True)
async def beginnings_of_matches(scene: Scene) -> None:
    """40 answers at a time are text that may begin a match for the filters at every place."""
    over_at, asked = monotonic() + scene.plan.strike_seconds, 0

    async def ask() -> None:
        nonlocal asked
        while monotonic() < over_at:
            asked += 1
            with suppress(*BROKEN):
                question = "#attack beginnings-of-matches"
                await ask_events(scene.attacker, session_token(), "m1", None, question)

    asking = [asyncio.create_task(ask()) for _ in range(_AT_ONCE)]
    await asyncio.wait(asking, timeout=scene.plan.strike_seconds)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    scene.did(f"{asked} answers")


@attack("key-taken-back", Judged.BY_OUTCOME, short=True, settings=_RETRACT, hostile_model=True)
async def key_taken_back(scene: Scene) -> None:
    """Text was shown and taken back: nobody who comes later is given it, and no cache keeps it."""
    opened = await scene.other.call("POST", "/session", {})
    session, token = opened.json["session_id"], opened.json["token"]
    told = await ask_events(scene.other, token, "m1", None, "#attack key-by-letters")
    scene.must("[redacted]" in told.text, f"it was not taken back: {told.text!r} {told.error}")
    share = f"/session/{session}/share"
    late = bearer((await scene.other.call("POST", share, {}, bearer(token))).json["token"])
    chat = f"/chat/message/{told.response_id}"
    paths = (f"{chat}/events", f"/streams/{told.response_id}", f"{chat}/entries/1/0-2")
    for path in (*paths, f"{chat}?from_index=0&timeout_ms=0", f"/session/{session}/messages"):
        answer = await scene.attacker.call("GET", path, headers=late)
        scene.must(answer.status == 200, f"{path}: {answer.code}")
        told_late = b"".join(_DELTA.findall(answer.body))
        scene.must(b"AKIA" not in told_late + answer.body, f"{path}: it has what was taken back")
        kept = answer.headers.get("cache-control", "").partition("max-age=")[2].partition(",")[0]
        scene.must(int(kept or 0) <= _LONGEST_KEPT_SECONDS, f"{path}: caches keep it for {kept} s")


@attack("key-around-a-source", Judged.BY_OUTCOME, short=True, settings=_HOLD, hostile_model=True)
async def key_around_a_source(scene: Scene) -> None:
    """A source stands in the middle of a key, which the filters find all the same."""
    question = "#attack key-around-a-source"
    for answer in (
        await ask_events(scene.attacker, session_token(), "m1", None, question),
        await ask_openai(scene.attacker, question),
    ):
        scene.must(answer.text == "Your key is [redacted], so.", f"{answer.text!r} {answer.error}")


@attack("share-takes-places", Judged.BY_OUTCOME, short=True)
async def share_takes_places(scene: Scene) -> None:
    """Who has a share takes all places of those who are told who reads, and asks for names."""
    opened = await scene.other.call("POST", "/session", {"user": "alice"})
    session, own = opened.json["session_id"], bearer(opened.json["token"])
    posted = await scene.other.call("POST", "/chat/message", chat_message("m1", None, _LONG), own)
    chat = f"/chat/message/{posted.json['response_id']}"
    shared = await scene.other.call("POST", f"/session/{session}/share", {}, own)
    share = bearer(shared.json["token"])
    reading = await scene.other.connect()
    reading.send(scene.other.request("GET", f"{chat}/events", headers=own))
    await reading.head()
    told = 0
    for _ in range(_LISTENERS + 1):
        listening = await scene.attacker.connect()
        listening.send(scene.attacker.request("GET", f"{chat}/presence", headers=share))
        head = await listening.head()
        told += head.status == 200
        if told == 1:
            async for line in listening.body_lines(head):
                if line.startswith(b"data:"):
                    scene.must(b"alice" not in line, "the share is told a name")
                    break
    scene.did(f"{told} listeners of one share")
    listening = await scene.other.connect()
    listening.send(scene.other.request("GET", f"{chat}/presence", headers=own))
    head = await listening.head()
    scene.must(head.status == 200, f"the session's own listener: {head.status}")
    await scene.other.call("POST", f"{chat}/cancel", headers=own)
