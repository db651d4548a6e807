"""Attacks by the model's server: `tests.attack.hostile_model` has how it misbehaves."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from time import monotonic

from tests.attack.asking import BROKEN, Answer, ask_events, ask_openai
from tests.attack.attack import Judged, Scene, attack
from tests.attack.hostile_model import (
    BEGINNING,
    FORGED,
    OF_ANOTHER_CHOICE,
    REST,
    SECRET_IN_ERROR,
)
from tests.attack.tokens import HOSTILE, KEYED, TENANT_KEYS, session_token
from tests.attack.wire import Client, bearer

_WHOLE = BEGINNING + REST
_HONEST_QUESTION = "#demo tokens=1 seed=5"


async def _ask(scene: Scene, behaviour: str) -> Answer:
    return await ask_events(scene.attacker, session_token(), "m1", None, f"#attack {behaviour}")


async def _have_it_misbehave(scene: Scene, behaviour: str, count: int) -> None:
    """Ask questions that have the model misbehave, so many at a time, for the length of a
    strike.
    """
    over_at, asked = monotonic() + scene.plan.strike_seconds, 0

    async def ask() -> None:
        nonlocal asked
        while monotonic() < over_at:
            asked += 1
            with suppress(*BROKEN):
                await _ask(scene, behaviour)

    asking = [asyncio.create_task(ask()) for _ in range(count)]
    await asyncio.wait(asking, timeout=scene.plan.strike_seconds)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    scene.did(f"{asked} questions")


@attack("gzip-bomb", short=True, hostile_model=True)
async def gzip_bomb(scene: Scene) -> None:
    """The model's answers unpack to 256 MiB."""
    await _have_it_misbehave(scene, "gzip-bomb", 4)


@attack("interim-answers", short=True, hostile_model=True)
async def interim_answers(scene: Scene) -> None:
    """The model says `100 Continue` without an end."""
    await _have_it_misbehave(scene, "interim-answers", 4)


@attack("failing-questions", settings=KEYED, hostile_model=True)
async def failing_questions(scene: Scene) -> None:
    """One tenant's questions have the model's server answer 500, again and again."""
    over_at, ended = monotonic() + scene.plan.strike_seconds, Counter[str]()
    headers = bearer(TENANT_KEYS[HOSTILE])

    async def ask() -> None:
        while monotonic() < over_at:
            with suppress(*BROKEN):
                answer = await ask_openai(scene.attacker, "#attack error-500", headers)
                ended[answer.error] += 1
            await asyncio.sleep(0.05)

    await asyncio.gather(*[ask() for _ in range(16)])
    scene.did(f"{ended.total():,} questions, by how they ended: {dict(ended)}")


@attack("redirect", Judged.BY_OUTCOME, short=True, hostile_model=True)
async def redirect(scene: Scene) -> None:
    """The model sends the request with its prompt and key to another host."""
    await _ask(scene, "redirect")
    await ask_openai(scene.attacker, "#attack redirect")
    told = await Client(scene.target.model_port, scene.attacker.address).call("GET", "/told")
    scene.must(told.body == b"0", f"another host was told {told.body.decode()} prompts")


@attack("second-answer", Judged.BY_OUTCOME, short=True, hostile_model=True)
async def second_answer(scene: Scene) -> None:
    """Behind an answer the model sends another, which answers nobody's next question."""
    for behaviour in ("second-answer", "late-second-answer"):
        answers = [await _ask(scene, behaviour)]
        await asyncio.sleep(0.3)
        answers += [
            await ask_events(scene.other, session_token(), "m1", None, _HONEST_QUESTION)
            for _ in range(4)
        ]
        given = [answer for answer in answers if FORGED in answer.text]
        scene.must(not given, f"{behaviour}: {len(given)} users were given another's answer")
        failed = [answer.error for answer in answers[1:] if answer.error]
        scene.must(not failed, f"{behaviour}: honest questions ended with {failed}")


@attack("error-with-a-secret", Judged.BY_OUTCOME, short=True, hostile_model=True)
async def error_with_a_secret(scene: Scene) -> None:
    """The model's error has a password in it, which neither clients nor the log are shown."""
    for behaviour in ("error-500", "error-400"):
        answer = await _ask(scene, behaviour)
        scene.must(SECRET_IN_ERROR not in answer.raw, f"{behaviour}: the chat was shown it")
        scene.must(bool(answer.error), f"{behaviour}: there is no error")
        answer = await ask_openai(scene.attacker, f"#attack {behaviour}")
        scene.must(SECRET_IN_ERROR not in answer.raw, f"{behaviour}: /v1 was shown it")
    scene.must(SECRET_IN_ERROR not in scene.target.log, "the log has it")


@attack("odd-streams", Judged.BY_OUTCOME, short=True, hostile_model=True)
async def odd_streams(scene: Scene) -> None:
    """A byte order mark, lines that end in CR, a second choice: none of it loses or adds text."""
    for behaviour in ("byte-order-mark", "carriage-returns", "two-choices"):
        answer = await _ask(scene, behaviour)
        scene.must(
            OF_ANOTHER_CHOICE not in answer.text, f"{behaviour}: it has another choice's text"
        )
        scene.must(answer.text == _WHOLE, f"{behaviour}: {answer.text!r} {answer.error}")
