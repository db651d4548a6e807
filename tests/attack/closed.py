"""Attacks with what is no longer valid: no key where one is needed, and keys, tokens, sessions and
tenants that are gone.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from time import monotonic

from tests.attack.asking import BROKEN, chat_message
from tests.attack.attack import Judged, Scene, attack
from tests.attack.wire import Reply, bearer
from tests.integration.raw_websocket import RawWebSocket, text_frame
from tests.integration.server_process import ROOT, clean_environment

_QUESTION = "#demo tokens=2 gap_ms=0 first_token_ms=0"
_LONG = "#demo tokens=4000 gap_ms=50"
_COMPLETION = {"model": "demo", "messages": [{"role": "user", "content": _QUESTION}]}
_CREATE = {"type": "response.create", "model": "demo", "input": _QUESTION}
_HEARTBEAT_SECONDS = 2.0
_SEEN_SECONDS = 5.0
_SETTINGS = {"EVENFLOW_HEARTBEAT_SECONDS": f"{_HEARTBEAT_SECONDS:g}"}
_TOKEN_SECONDS = 8


async def _tenants(scene: Scene, *arguments: str) -> str:
    """What an operator does meanwhile: `evenflow tenants …`. Returns the key that it prints."""
    path = str(scene.target.log_file.parent / "evenflow.db")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "evenflow", "tenants", *arguments),
        cwd=ROOT,
        env=clean_environment({"EVENFLOW_STORE": "sqlite", "EVENFLOW_STORE_PATH": path}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    return out.decode().strip()


async def _session(scene: Scene, key: str = "", **body: object) -> Reply:
    headers = bearer(key) if key else {}
    return await scene.attacker.call("POST", "/session", body, headers)


async def _seen(scene: Scene, key: str) -> None:
    """Wait until the server knows a new key. An open server takes any."""
    give_up_at = monotonic() + _SEEN_SECONDS
    while await _may_list(scene, "made-up") or not await _may_list(scene, key):
        if monotonic() > give_up_at:
            scene.must(False, f"a new key is not taken within {_SEEN_SECONDS:g} s")
            return
        await asyncio.sleep(0.1)


async def _may_list(scene: Scene, key: str) -> bool:
    return (await scene.other.call("GET", "/v1/models", headers=bearer(key))).status == 200


async def _must_be_refused(scene: Scene, who: str, token: str, session_id: str = "mine") -> None:
    """No call that asks a model, reads, or opens anything is taken from who has this."""
    message = chat_message("m1", None, _QUESTION)
    ui = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": _QUESTION}]}]
    calls: list[tuple[str, str, object]] = [
        ("POST", "/session", {}),
        ("POST", "/session", {"tenant": "acme"}),
        ("POST", "/chat/message", message),
        ("POST", "/v1/chat/completions", _COMPLETION),
        ("POST", "/v1/messages", _COMPLETION | {"max_tokens": 5}),
        ("POST", "/v1/responses", {"model": "demo", "input": _QUESTION}),
        ("POST", "/api/chat", {"id": "c1", "messages": ui}),
        ("POST", f"/session/{session_id}/share", {}),
        ("GET", f"/session/{session_id}/messages", None),
        ("GET", "/v1/models", None),
        ("GET", "/usage", None),
    ]
    headers = bearer(token) if token else {}
    for method, path, body in calls:
        reply = await scene.attacker.call(method, path, body, headers)
        refused = 400 <= reply.status < 500 and reply.status != 429
        scene.must(refused, f"{method} {path} of {who} is answered {reply.status}")
    for path in ("/ws", "/v1/responses"):
        async with scene.attacker.connection() as connection:
            websocket = await connection.upgraded(token, path, headers=_authorized(token))
        scene.must(websocket.status != 101, f"{path} is opened by {who}")


def _authorized(token: str) -> str:
    return f"Authorization: Bearer {token}\r\n" if token else ""


@attack("closed-server", Judged.ALONE, settings=_SETTINGS)
async def closed_server(scene: Scene) -> None:
    """A stranger without a key stays, when the first tenant comes, when its leaked key is replaced,
    and when the last tenant goes.
    """
    opened = (await _session(scene)).json
    token, session_id = opened["token"], opened["session_id"]
    key = await _tenants(scene, "add", "acme")
    await _seen(scene, key)
    for who, credential in (("a stranger", ""), ("who was here before", token)):
        await _must_be_refused(scene, who, credential, session_id)
    of_key = (await _session(scene, key)).json
    newer = await _tenants(scene, "rotate", "acme", "--overlap", "0")
    await _seen(scene, newer)
    of_newer = (await _session(scene, newer)).json
    await _must_be_refused(scene, "the leaked key", key)
    await _must_be_refused(scene, "its session", of_key["token"], of_key["session_id"])
    await _tenants(scene, "remove", "acme")
    await asyncio.sleep(_SEEN_SECONDS)
    for who, credential in (("a stranger", ""), ("the last key", newer)):
        await _must_be_refused(scene, f"{who}, without any tenant", credential)
    await _must_be_refused(scene, "its session", of_newer["token"], of_newer["session_id"])


@attack("ended-session", Judged.ALONE, settings=_SETTINGS)
async def ended_session(scene: Scene) -> None:
    """The tokens, shares and sockets of a session that was ended, and a background answer."""
    key = await _tenants(scene, "add", "acme")
    await _seen(scene, key)
    opened = (await _session(scene, key)).json
    token, session_id = opened["token"], opened["session_id"]
    asked = {"model": "demo", "input": _LONG, "background": True}
    made = await scene.attacker.call("POST", "/v1/responses", asked, bearer(token))
    share = await scene.attacker.call("POST", f"/session/{session_id}/share", {}, bearer(token))
    chat = await scene.attacker.websocket(token)
    responses = await (await scene.attacker.connect()).upgraded(
        token, "/v1/responses", headers=_authorized(token)
    )
    scene.must((chat.status, responses.status) == (101, 101), "no socket was opened")
    ended = await scene.other.call("DELETE", f"/session/{session_id}", headers=bearer(token))
    scene.must(ended.status == 204, f"the session's end is answered {ended.status}")
    for socket in (chat, responses):
        await _must_end(scene, socket)
    running = await scene.target.metric("generations_running")
    scene.must(running == 0, "the background answer runs on")
    await _must_be_refused(scene, "an ended session", token, session_id)
    for who, credential in (("it", token), ("its share", share.json["token"])):
        path = f"/v1/responses/{made.json['id']}"
        for each in (path, f"{path}/input_items"):
            reply = await scene.attacker.call("GET", each, headers=bearer(credential))
            scene.must(reply.status == 410, f"{each} of {who} is answered {reply.status}")


@attack(
    "outlived-token",
    Judged.ALONE,
    settings=_SETTINGS | {"EVENFLOW_SESSION_TOKEN_TTL_SECONDS": str(_TOKEN_SECONDS)},
)
async def outlived_token(scene: Scene) -> None:
    """Sockets that were opened with a token or a key ask on after its end."""
    key = await _tenants(scene, "add", "acme")
    await _seen(scene, key)
    token = (await _session(scene, key)).json["token"]
    chat = await scene.attacker.websocket(token)
    by_token, by_key = [
        await (await scene.attacker.connect()).upgraded(
            given, "/v1/responses", headers=_authorized(given)
        )
        for given in (token, key)
    ]
    await asyncio.sleep(_TOKEN_SECONDS + 0.5)
    for socket in (chat, by_token):
        await _must_end(scene, socket)
    await _tenants(scene, "rotate", "acme", "--overlap", "0")
    await asyncio.sleep(_SEEN_SECONDS)
    with suppress(*BROKEN):
        by_key.write(text_frame(_CREATE))
    await _must_end(scene, by_key)


async def _must_end(scene: Scene, socket: RawWebSocket) -> None:
    """A socket is told of no answer, and ends within two heartbeats."""
    came = b""
    try:
        came = await socket.ended(2 * _HEARTBEAT_SECONDS + 6.0)
    except TimeoutError:
        scene.must(False, "a socket outlives what opened it")
    except ConnectionError:
        pass
    scene.must(b"response.completed" not in came, "a socket was answered after its end")
