"""One's own identity provider: real documents over HTTP, believed by the handler and by the
function.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from tests.identity_provider import make_key
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import HttpAnswer, call, chat_message, demo
from tests.integration.conftest import Serve
from tests.integration.issuer_server import DISCOVERY, ELSEWHERE, KEYS, LARGE, SLOW, IssuerServer
from tests.integration.local_server import LocalServer, refusal
from tests.integration.session_account import SIGNING_KEY, Account

TOKENS = SessionTokens({"k1": SIGNING_KEY.encode()})
ACME_KEY = "key-of-acme-0123456789"


@pytest.fixture
def issuer() -> Iterator[IssuerServer]:
    running = IssuerServer()
    yield running
    running.stop()


class Door:
    """Where sessions are opened: at the handler, or by the function."""

    server: LocalServer | None = None
    function: Any = None

    def __init__(self, http: aiohttp.ClientSession, serve: Serve) -> None:
        self._http, self._serve = http, serve

    async def session(self, token: str | None, **body: str) -> HttpAnswer:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        data = json.dumps(body).encode()
        if self.server is None:
            answer: HttpAnswer = self.function.call("POST", "/session", data, headers)
            return answer
        url = f"{self.server.http_url}/session"
        return await call(self._http, "POST", url, data, headers=headers)

    def later(self, seconds: float) -> None:
        """Its time passes."""
        if self.server is not None:
            self._serve.time.ahead += seconds
        else:
            keys = self.function.module._identities
            ahead = keys._wall_time() - time.time() + seconds
            keys._wall_time = lambda: time.time() + ahead


class Doors:
    """Opens doors that believe an issuer."""

    def __init__(self, kind: str, account: Account, http: aiohttp.ClientSession, serve: Serve):
        self._kind, self._account, self._http, self._serve = kind, account, http, serve

    async def __call__(self, issuer: IssuerServer, **settings: str) -> Door:
        door, variables = Door(self._http, self._serve), issuer.environment(**settings)
        if self._kind == "function":
            door.function = self._account.session_init(**variables)
        else:
            keys = {"EVENFLOW_TENANT_KEYS": json.dumps({"acme": ACME_KEY})}
            door.server = await self._serve(variables | keys, token_keys=f"k1:{SIGNING_KEY}")
        return door


@pytest.fixture(scope="module")
def account(emulated_aws: AwsEmulator) -> Account:
    return Account(emulated_aws, {"acme": ACME_KEY})


@pytest.fixture(params=["handler", "function"])
def doors(
    request: pytest.FixtureRequest, account: Account, http: aiohttp.ClientSession, serve: Serve
) -> Doors:
    return Doors(request.param, account, http, serve)


def told(answer: HttpAnswer) -> tuple[int, str]:
    return answer.status, answer.error["code"]


# -- both ------------------------------------------------------------------------------------------


async def test_a_token_opens_a_session_of_its_tenant_and_user(
    doors: Doors, issuer: IssuerServer
) -> None:
    door = await doors(issuer, tenant_claim="org")
    opened = await door.session(issuer.now_token(org="globex"), agent="demo")
    assert opened.status == 201
    claims = TOKENS.verify(opened.json["token"], time.time())
    assert claims.channel == Channel("globex", "demo", opened.json["session_id"])
    assert claims.user == "ada"
    by_key = await door.session(ACME_KEY, tenant="acme", user="bob")
    assert TOKENS.verify(by_key.json["token"], time.time()).user == "bob"


async def test_whatever_is_wrong_with_a_token_has_its_code(
    doors: Doors, issuer: IssuerServer
) -> None:
    door, now, stranger = await doors(issuer, tenant_claim="org"), time.time(), make_key("RS256")
    assert (await door.session(issuer.now_token(org="acme"))).status == 201
    wrong = {
        None: (401, "tenant_key_invalid"),
        "a.b.c": (401, "tenant_key_invalid"),
        issuer.now_token(signed_by=stranger): (401, "identity_token_invalid"),
        issuer.now_token(signed_by=make_key("ES256"), algorithm="ES256"): (
            401,
            "identity_token_invalid",
        ),
        issuer.now_token(exp=now - 61): (401, "identity_token_expired"),
        issuer.now_token(nbf=now + 90): (401, "identity_token_early"),
        issuer.now_token(aud="another"): (401, "identity_token_audience"),
        issuer.now_token(iss="http://127.0.0.1:1"): (401, "identity_token_issuer"),
        issuer.unsigned(now): (401, "identity_token_algorithm"),
        issuer.signed_with_public_key(now): (401, "identity_token_algorithm"),
        issuer.now_token(signed_by=stranger, key_id="theirs"): (401, "identity_key_unknown"),
        issuer.now_token(org="no:name"): (403, "identity_claim_invalid"),
    }
    assert {token: told(await door.session(token)) for token in wrong} == wrong
    other = await door.session(issuer.now_token(org="acme"), tenant="globex")
    assert told(other) == (403, "identity_mismatch")


async def test_a_rotated_key_is_taken_at_once_and_forged_ones_make_nobody_ask_again(
    doors: Doors, issuer: IssuerServer
) -> None:
    door = await doors(issuer)
    assert (await door.session(issuer.now_token())).status == 201
    assert issuer.asked == [DISCOVERY, KEYS]
    old = issuer.now_token()
    issuer.rotate()
    assert (await door.session(issuer.now_token())).status == 201
    assert (await door.session(old)).status == 201
    assert issuer.asked == [DISCOVERY, KEYS] * 2
    for number in range(5):
        forged = issuer.now_token(signed_by=make_key("ES256"), key_id=f"forged-{number}",
                                  algorithm="ES256")  # fmt: skip
        assert told(await door.session(forged)) == (401, "identity_key_unknown")
    assert issuer.asked == [DISCOVERY, KEYS] * 2
    door.later(31)
    issuer.rotate(keep=False)
    assert (await door.session(issuer.now_token())).status == 201


async def test_an_issuer_that_is_down_leaves_known_keys_in_force(
    doors: Doors, issuer: IssuerServer
) -> None:
    door = await doors(issuer)
    assert (await door.session(issuer.now_token())).status == 201
    issuer.stop()
    door.later(3_601)
    valid = issuer.now_token(exp=time.time() + 8_000)
    assert (await door.session(valid)).status == 201
    unknown = await door.session(issuer.now_token(key_id="new"))
    assert told(unknown) == (503, "identity_keys_unavailable")
    assert int(unknown.headers["Retry-After"]) in range(1, 31)


async def test_without_any_keys_callers_come_again_and_keys_of_tenants_open(
    doors: Doors, issuer: IssuerServer
) -> None:
    issuer.stop()
    door = await doors(issuer)
    refused = await door.session(issuer.now_token())
    assert told(refused) == (503, "identity_keys_unavailable")
    # Two seconds after the keys were asked for, which takes a moment, and rounded up.
    again_in = int(refused.headers["Retry-After"])
    assert again_in in (1, 2, 3)
    assert (await door.session(ACME_KEY, tenant="acme")).status == 201
    issuer.start()
    door.later(again_in)
    assert (await door.session(issuer.now_token())).status == 201


@pytest.mark.parametrize("path", [ELSEWHERE, LARGE, SLOW, "/nothing", DISCOVERY])
async def test_what_an_issuer_answers_is_bounded_and_led_nowhere_else(
    doors: Doors, issuer: IssuerServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("fargate_handler.gateway.connections", "functions.session_init"):
        monkeypatch.setattr(f"evenflow.{place}.identity_keys.FETCH_SECONDS", 0.5)
    door = await doors(issuer, keys_url=issuer.issuer + path)
    refused = await door.session(issuer.now_token())
    assert told(refused) == (503, "identity_keys_unavailable")
    assert set(issuer.asked) == {path}


async def test_two_tenants_with_sessions_of_one_name_never_see_each_others(
    issuer: IssuerServer, http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(issuer.environment(tenant_claim="org"))
    sessions = []
    for org in ("acme", "globex"):
        headers = {"Authorization": f"Bearer {issuer.now_token(org=org, sub='ada')}"}
        url, body = f"{server.http_url}/session", json.dumps({"session_id": "mine"}).encode()
        sessions.append((await call(http, "POST", url, body, headers=headers)).json)
    assert sessions[0]["session_id"] == sessions[1]["session_id"]
    owns = [{"Authorization": f"Bearer {session['token']}"} for session in sessions]
    said = json.dumps(chat_message("m1", None, demo(tokens=2))).encode()
    url = f"{server.http_url}/chat/message"
    response_id = (await call(http, "POST", url, said, headers=owns[0])).json["response_id"]
    other = await call(http, "GET", f"{url}/{response_id}", headers=owns[1])
    assert told(other) == (404, "response_not_found")
    listed = f"{server.http_url}/session/{sessions[1]['session_id']}/messages"
    assert (await call(http, "GET", listed, headers=owns[1])).json["messages"] == []


# -- the handler -----------------------------------------------------------------------------------


async def test_users_share_neither_keys_nor_responses_within_their_tenant(
    issuer: IssuerServer, http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(issuer.environment())
    url = f"{server.http_url}/v1/responses"

    async def create(user: str, text: str) -> HttpAnswer:
        body = json.dumps({"model": "demo", "input": text}).encode()
        headers = {"Authorization": f"Bearer {issuer.now_token(sub=user)}"}
        return await call(http, "POST", url, body, headers={**headers, "Idempotency-Key": "1"})

    ada, again = [await create("ada", demo(tokens=2)) for _ in range(2)]
    eve = await create("eve", demo(tokens=3))
    assert (ada.status, ada.json["id"]) == (200, again.json["id"])
    assert eve.status == 200
    assert eve.json["id"] != ada.json["id"]
    eves = {"Authorization": f"Bearer {issuer.now_token(sub='eve')}"}
    stolen = await call(http, "GET", f"{url}/{ada.json['id']}", headers=eves)
    assert told(stolen) == (404, "response_not_found")


async def test_a_chat_s_name_is_its_user_s_own(
    issuer: IssuerServer, http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(issuer.environment())
    message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": demo(tokens=2)}]}
    body = json.dumps({"id": "chat", "messages": [message]}).encode()
    mine, other = (
        {"Authorization": f"Bearer {issuer.now_token(sub=user)}"} for user in ("ada", "eve")
    )
    chats = f"{server.http_url}/api/chat"
    assert (await call(http, "POST", chats, body, headers=mine)).status == 200
    running = f"{chats}/chat/stream"
    assert (await call(http, "GET", running, headers=mine)).status == 200
    assert (await call(http, "GET", running, headers=other)).status == 204


async def test_a_websocket_of_the_responses_api_is_opened_by_a_token(
    issuer: IssuerServer, serve: Serve
) -> None:
    issuer.stop()
    server = await serve(issuer.environment())
    url = f"{server.http_url.replace('http', 'ws', 1)}/v1/responses"

    async def answered(token: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            async with connect(url, additional_headers=headers, proxy=None) as socket:
                asked = {"type": "response.create", "model": "demo", "input": demo(tokens=2)}
                await socket.send(json.dumps(asked))
                return 101, json.loads(await socket.recv())["type"]
        except InvalidStatus as refused:
            code = json.loads(refused.response.body)["error"]["code"]
            return refused.response.status_code, code

    assert await answered(issuer.now_token()) == (503, "identity_keys_unavailable")
    issuer.start()
    serve.time.ahead += 3
    # A handshake does not wait for the keys that it has fetched.
    assert await answered(issuer.now_token()) == (503, "identity_keys_unavailable")
    async with asyncio.timeout(10):
        while await answered(issuer.now_token()) != (101, "response.created"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await answered(issuer.unsigned(time.time())) == (401, "identity_token_algorithm")


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({"EVENFLOW_OIDC_ISSUER": "login.example.com"}, "EVENFLOW_OIDC_ISSUER='login.example.com'"),
        ({"EVENFLOW_OIDC_ISSUER": "https://login.example.com"}, "EVENFLOW_OIDC_AUDIENCE must be"),
        ({"EVENFLOW_OIDC_AUDIENCE": "a"}, "EVENFLOW_OIDC_AUDIENCE is set without"),
    ],
)
async def test_a_wrong_setting_stops_the_start(variables: dict[str, str], wrong: str) -> None:
    assert (await refusal(variables)).startswith(wrong)
