"""Attacks without a key where one is needed, and with keys, tokens, sessions and tenants that have
ended.
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
_RECORDS_SECONDS = 5.0
"""Within these a server knows new records."""
_LAST_SECONDS = 2 * _HEARTBEAT_SECONDS + _RECORDS_SECONDS + 1.0
"""Within these a socket ends whose credential is no longer valid."""
_SETTINGS = {"EVENFLOW_HEARTBEAT_SECONDS": f"{_HEARTBEAT_SECONDS:g}"}
_TOKEN_SECONDS = 8


async def _tenants(scene: Scene, *arguments: str) -> str:
    """Run `evenflow tenants …`, as an operator does. Returns the key that it prints."""
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


async def _open_session(scene: Scene, key: str = "", **body: object) -> Reply:
    headers = bearer(key) if key else {}
    return await scene.attacker.call("POST", "/session", body, headers)


async def _wait_for_key(scene: Scene, key: str) -> None:
    """Wait until the server knows a new key. An open server takes any."""
    give_up_at = monotonic() + _RECORDS_SECONDS
    while await _may_list(scene, "made-up") or not await _may_list(scene, key):
        if monotonic() > give_up_at:
            scene.must(False, f"a new key is not taken within {_RECORDS_SECONDS:g} s")
            return
        await asyncio.sleep(0.1)


async def _may_list(scene: Scene, key: str) -> bool:
    return (await scene.other.call("GET", "/v1/models", headers=bearer(key))).status == 200


async def _must_be_refused(scene: Scene, caller: str, token: str, session_id: str = "mine") -> None:
    """Check that no call with this token may ask a model, read or open anything.

    Args:
        caller: whose token it is, for the report.
    """
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
        scene.must(refused, f"{method} {path} of {caller} is answered {reply.status}")
    for path in ("/ws", "/v1/responses"):
        async with scene.attacker.connection() as connection:
            websocket = await connection.upgraded(token, path, headers=_authorized(token))
        scene.must(websocket.status != 101, f"{path} is opened by {caller}")


def _authorized(token: str) -> str:
    return f"Authorization: Bearer {token}\r\n" if token else ""


@attack("closed-server", Judged.ALONE, settings=_SETTINGS)
async def closed_server(scene: Scene) -> None:
    """A stranger goes on when the first tenant gets a key, when a leaked key is replaced, and when
    the last tenant is removed.
    """
    opened = (await _open_session(scene)).json
    token, session_id = opened["token"], opened["session_id"]
    key = await _tenants(scene, "add", "acme")
    await _wait_for_key(scene, key)
    for caller, credential in (("a stranger", ""), ("a session of before", token)):
        await _must_be_refused(scene, caller, credential, session_id)
    old_session = (await _open_session(scene, key)).json
    new_key = await _tenants(scene, "rotate", "acme", "--overlap", "0")
    await _wait_for_key(scene, new_key)
    new_session = (await _open_session(scene, new_key)).json
    await _must_be_refused(scene, "the leaked key", key)
    await _must_be_refused(scene, "its session", old_session["token"], old_session["session_id"])
    await _tenants(scene, "remove", "acme")
    await asyncio.sleep(_RECORDS_SECONDS)
    for caller, credential in (("a stranger", ""), ("the last key", new_key)):
        await _must_be_refused(scene, f"{caller}, without any tenant", credential)
    await _must_be_refused(scene, "its session", new_session["token"], new_session["session_id"])


@attack("ended-session", Judged.ALONE, settings=_SETTINGS)
async def ended_session(scene: Scene) -> None:
    """The tokens, shares and sockets of a session that was ended, and a background answer."""
    key = await _tenants(scene, "add", "acme")
    await _wait_for_key(scene, key)
    opened = (await _open_session(scene, key)).json
    token, session_id = opened["token"], opened["session_id"]
    body = {"model": "demo", "input": _LONG, "background": True}
    response = await scene.attacker.call("POST", "/v1/responses", body, bearer(token))
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
    for caller, credential in (("the token", token), ("its share", share.json["token"])):
        path = f"/v1/responses/{response.json['id']}"
        for url in (path, f"{path}/input_items"):
            reply = await scene.attacker.call("GET", url, headers=bearer(credential))
            scene.must(reply.status == 410, f"{url} of {caller} is answered {reply.status}")


@attack(
    "outlived-token",
    Judged.ALONE,
    settings=_SETTINGS | {"EVENFLOW_SESSION_TOKEN_TTL_SECONDS": str(_TOKEN_SECONDS)},
)
async def outlived_token(scene: Scene) -> None:
    """Sockets that were opened with a token or a key ask on after its end."""
    key = await _tenants(scene, "add", "acme")
    await _wait_for_key(scene, key)
    token = (await _open_session(scene, key)).json["token"]
    chat = await scene.attacker.websocket(token)
    by_token, by_key = [
        await (await scene.attacker.connect()).upgraded(
            credential, "/v1/responses", headers=_authorized(credential)
        )
        for credential in (token, key)
    ]
    await asyncio.sleep(_TOKEN_SECONDS + 0.5)
    for socket in (chat, by_token):
        await _must_end(scene, socket)
    await _tenants(scene, "rotate", "acme", "--overlap", "0")
    await asyncio.sleep(_RECORDS_SECONDS)
    with suppress(*BROKEN):
        by_key.write(text_frame(_CREATE))
    await _must_end(scene, by_key)


async def _must_end(scene: Scene, socket: RawWebSocket) -> None:
    """Check that a socket ends in time, without an answer."""
    received = b""
    try:
        received = await socket.ended(_LAST_SECONDS)
    except TimeoutError:
        scene.must(False, "a socket outlives what opened it")
    except ConnectionError:
        pass
    scene.must(b"response.completed" not in received, "a socket was answered after its end")
