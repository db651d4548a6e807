"""Attacks on the store: one sender fills the disk."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from random import Random

from tests.attack.asking import ask_events
from tests.attack.attack import Judged, Scene, attack
from tests.attack.tokens import session_token
from tests.attack.verdict import MIB
from tests.attack.wire import bearer

_QUICK = "#demo tokens=1 gap_ms=0 first_token_ms=0"
# 33 KB of gzip, which the server unpacks to 3.3 MB.
_NOISE, _ZEROES = 29_000, 3_250_000
_GROWS_MIB = 16
_STORE_MIB = 32
# The log of writes, the reserve, and what is on its way.
_BESIDE_MIB = 16


@attack("zeroes", Judged.BY_OUTCOME, short=True)
async def zeroes(scene: Scene) -> None:
    """40 requests of 33 KB, which unpack to 3.3 MB each, go to calls that keep them."""
    before, answered = _stored(scene), 0
    padding = b64encode(Random(7).randbytes(_NOISE)).decode() + "a" * _ZEROES
    for number in range(scene.scaled(40)):
        headers = {"Idempotency-Key": f"k{number}"} if number % 4 == 1 else {}
        path = ("/v1/chat/completions", "/v1/responses")[number % 2]
        answered += await _ask(scene, path, f"{padding}{number}", headers, packed=True) == "200"
    grown = (_stored(scene) - before) / MIB
    scene.did(f"{answered} were answered, the store grew by {grown:.1f} MiB")
    scene.must(answered > 0, "none was answered")
    scene.must(grown < _GROWS_MIB, f"the store grew by {grown:.1f} MiB")


@attack(
    "full-store",
    Judged.BY_OUTCOME,
    short=True,
    settings={"EVENFLOW_STORE_BYTES": str(_STORE_MIB * MIB)},
)
async def full_store(scene: Scene) -> None:
    """One sender fills the store with noise of 2 MB a request, until it is refused."""
    outcomes = list[str]()
    for seed in range(60):
        noise = b64encode(Random(seed).randbytes(1_500_000)).decode()
        outcomes.append(await _ask(scene, "/v1/responses", noise, {}))
        if outcomes[-1] == "store_full":
            break
    accepted = outcomes.count("200")
    scene.did(f"{accepted} were kept, then {outcomes[-1]}")
    scene.must(accepted > 0, f"the first one was refused: {outcomes[0]}")
    scene.must(outcomes[-1] == "store_full", f"nothing stopped it: {outcomes[-1]}")
    for number in range(4):
        answer = await ask_events(scene.other, session_token(), "m1", None, _QUICK)
        scene.must(not answer.error, f"honest question {number}: {answer.error}")
    last_outcome = await _ask(scene, "/v1/responses", "x" * 2_000_000, {})
    scene.must(last_outcome in {"200", "store_full"}, f"afterwards: {last_outcome}")
    stored = _stored(scene) / MIB
    scene.must(stored < _STORE_MIB + _BESIDE_MIB, f"the store has {stored:.0f} MiB")


async def _ask(
    scene: Scene, path: str, padding: str, headers: dict[str, str], *, packed: bool = False
) -> str:
    """Send a question behind a message of padding. Returns the status, or the error's code."""
    turns = [{"role": "user", "content": padding}, {"role": "user", "content": _QUICK}]
    body = json.dumps({"model": "demo", "input" if "responses" in path else "messages": turns})
    data = gzip.compress(body.encode(), 9) if packed else body.encode()
    all_headers = {
        **bearer(session_token("ses_of_the_attacker")),
        **({"Content-Encoding": "gzip"} if packed else {}),
        **headers,
        "Content-Type": "application/json",
    }
    async with scene.attacker.connection() as connection:
        connection.send(scene.attacker.request("POST", path, data, all_headers))
        return (await connection.reply()).code


def _stored(scene: Scene) -> int:
    """What the file and those beside it take of the disk."""
    return sum(
        file.stat().st_blocks * 512 for file in scene.target.log_file.parent.glob("evenflow.db*")
    )
