"""Attacks from pages and addresses of others: what a browser or a proxy can be made to send."""

from __future__ import annotations

import secrets

from tests.attack.asking import ask_openai
from tests.attack.attack import Judged, Scene, attack
from tests.attack.tokens import session_token

_FOREIGN = {"Origin": "https://attacker.example"}
_QUESTION = "#demo tokens=1 gap_ms=0"
_COMPLETION = {"model": "demo", "messages": [{"role": "user", "content": _QUESTION}]}
_ALLOWED = "https://app.example.com"


@attack("simple-request", Judged.BY_OUTCOME, short=True)
async def simple_request(scene: Scene) -> None:
    """A foreign page posts `text/plain`, which browsers send without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        headers = {**_FOREIGN, "Content-Type": kind}
        reply = await scene.attacker.call("POST", "/v1/chat/completions", _COMPLETION, headers)
        taken = f"{kind or 'no type'} of a foreign page is answered {reply.status}"
        scene.must(400 <= reply.status < 500, taken)
    reply = await scene.other.call("POST", "/v1/chat/completions", _COMPLETION)
    scene.must(reply.status == 200, f"a tool without an origin is answered {reply.status}")


@attack(
    "empty-origin",
    Judged.BY_OUTCOME,
    short=True,
    settings={"EVENFLOW_ALLOWED_ORIGINS": _ALLOWED},
)
async def empty_origin(scene: Scene) -> None:
    """An empty or a `null` origin does not pass where only some origins are allowed."""
    tried = {"": False, "null": False, "https://attacker.example": False, _ALLOWED: True}
    for origin, allowed in tried.items():
        async with scene.attacker.connection() as connection:
            header = f"Origin: {origin}\r\n"
            websocket = await connection.upgraded(session_token(), headers=header)
        passed = websocket.status == 101
        scene.must(passed == allowed, f"the origin {origin!r} is answered {websocket.status}")


@attack("rebound-name", Judged.BY_OUTCOME, short=True)
async def rebound_name(scene: Scene) -> None:
    """A foreign name that leads to the loopback: a server there answers its own names only."""
    for name in ("attacker.example", "attacker.example:80", "127.0.0.1.attacker.example"):
        for method, path in (("POST", "/session"), ("POST", "/v1/chat/completions"), ("GET", "/")):
            body = _COMPLETION if path.startswith("/v1") else None
            reply = await scene.attacker.call(method, path, body, {"Host": name})
            scene.must(400 <= reply.status < 500, f"{path} of {name} is answered {reply.status}")
    for name in (scene.other.host, scene.other.host.replace("127.0.0.1", "localhost")):
        reply = await scene.other.call("POST", "/session", headers={"Host": name})
        scene.must(reply.status == 201, f"its own name {name} is answered {reply.status}")


@attack("metrics-from-outside", Judged.BY_OUTCOME, short=True)
async def metrics_from_outside(scene: Scene) -> None:
    """`/metrics` is asked for through a proxy on this machine, on the public port."""
    for headers in ({"X-Forwarded-For": "203.0.113.7"}, {"Host": "chat.example.com"}):
        reply = await scene.other.call("GET", "/metrics", headers=headers)
        scene.must(reply.status != 200, f"/metrics is shown to {headers}")


@attack("keys-of-others", Judged.BY_OUTCOME, short=True)
async def keys_of_others(scene: Scene) -> None:
    """Without tenants' keys an idempotency key of somebody else opens nothing of theirs."""
    key = {"Idempotency-Key": secrets.token_hex(4)}
    theirs = await ask_openai(scene.other, _QUESTION, key)
    mine = await ask_openai(scene.attacker, _QUESTION, key)
    scene.must(not theirs.error, f"an honest key is answered {theirs.error}")
    scene.must(mine.response_id != theirs.response_id, "the answer of somebody else was given")
    again = await ask_openai(scene.other, _QUESTION, key)
    scene.must(again.response_id == theirs.response_id, "one's own key is answered anew")
