"""`POST /session`: the handler's local route and the Lambda function answer alike; and what only
the function has to do.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import aiohttp
import jwt
import pytest

from evenflow.functions.cached_secret import MAX_AGE_SECONDS
from evenflow.functions.tenant_records import LOOK_SECONDS
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.http.routes import EDGE_KEY_HEADER
from evenflow.stream_core.tenants.tenant import ApiKey, Tenant
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import HttpAnswer, call
from tests.integration.conftest import Serve
from tests.integration.http_api_event import DOMAIN, EDGE_KEY, http_api_event
from tests.integration.lambda_function import LambdaFunction
from tests.integration.local_server import LocalServer
from tests.integration.server_process import ROOT, clean_environment, free_port
from tests.integration.session_account import SIGNING_KEY, Account

ACME_KEY, GLOBEX_KEY = "key-of-acme-0123456789", "key-of-globex-0123456789"
TENANTS = {"acme": ACME_KEY, "globex": GLOBEX_KEY}
TOKENS = SessionTokens({"k1": SIGNING_KEY.encode()})
DAY = 24 * 3600

Ask = Callable[..., Awaitable[HttpAnswer]]


@pytest.fixture(scope="module")
def account(emulated_aws: AwsEmulator) -> Account:
    return Account(emulated_aws, TENANTS)


@pytest.fixture
def own_account(emulated_aws: AwsEmulator) -> Account:
    """One that a test may change."""
    return Account(emulated_aws, {})


@pytest.fixture(scope="module")
def function(account: Account) -> LambdaFunction:
    return account.session_init()


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    keys = json.dumps(TENANTS)
    return await serve(tenant_keys=keys, token_keys=f"k1:{SIGNING_KEY}", open_tenant="public")


def asking_function(function: LambdaFunction) -> Ask:
    async def ask(
        method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        return function.call(method, path, encoded(body), headers)

    return ask


def asking_server(server: LocalServer, http: aiohttp.ClientSession) -> Ask:
    async def ask(
        method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        data = None if body is None else encoded(body)
        return await call(http, method, server.http_url + path, data, headers=headers)

    return ask


def encoded(body: object) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture(params=["handler", "function"])
def ask(request: pytest.FixtureRequest, http: aiohttp.ClientSession) -> Ask:
    """Asks one of the two for a session."""
    if request.param == "handler":
        return asking_server(request.getfixturevalue("server"), http)
    return asking_function(request.getfixturevalue("function"))


# -- both ------------------------------------------------------------------------------------------

JSON_TYPE = {"Content-Type": "application/json"}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "body", [None, b"", {}, {"tenant": "public", "agent": "demo"}, {"unknown": 1}]
)
@pytest.mark.parametrize("headers", [{}, JSON_TYPE], ids=["octets", "json"])
async def test_a_session(ask: Ask, body: object, headers: dict[str, str]) -> None:
    answer = await ask("POST", "/session", body, headers)
    assert answer.status == 201
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    told = answer.json
    assert told.keys() == {
        "session_id",
        "token",
        "expires_at",
        "ws_url",
        "http_url",
        "agent",
        "suggestions",
    }
    claims = TOKENS.verify(told["token"], time.time())
    assert claims.channel == Channel("public", "demo", told["session_id"])
    expires_at = datetime.fromisoformat(told["expires_at"])
    assert expires_at.timestamp() == claims.expires_at
    assert abs((expires_at - datetime.now(UTC)).total_seconds() - 3600) < 10


async def test_a_named_session_is_continued(ask: Ask) -> None:
    body = {"agent": "demo", "session_id": "my-own.session_1"}
    for _ in range(2):
        told = (await ask("POST", "/session", body)).json
        assert told["session_id"] == "my-own.session_1"
        assert TOKENS.verify(told["token"], time.time()).channel == Channel(
            "public", "demo", "my-own.session_1"
        )


async def test_both_know_the_same_agents(
    account: Account, serve: Serve, http: aiohttp.ClientSession
) -> None:
    agents = '{"support": {"suggestions": ["Where is my order?"]}, "sales": {}}'
    function = asking_function(account.session_init(EVENFLOW_AGENTS_JSON=agents))
    settings: dict[str, Any] = {
        "agents_json": agents,
        "tenant_keys": json.dumps(TENANTS),
        "open_tenant": "public",
    }
    handler = asking_server(await serve(**settings), http)
    for body in ({}, {"agent": "sales", "user": "zoe"}, {"agent": "demo"}):
        by_function, by_handler = [
            await ask("POST", "/session", body) for ask in (function, handler)
        ]
        assert by_function.status == by_handler.status
        for field in ("agent", "suggestions", "error"):
            assert by_function.json.get(field) == by_handler.json.get(field)
    assert by_function.error["code"] == "agent_not_found"


@pytest.mark.parametrize(("tenant", "key"), [("acme", ACME_KEY), ("globex", GLOBEX_KEY)])
async def test_a_tenant_with_its_key(ask: Ask, tenant: str, key: str) -> None:
    answer = await ask("POST", "/session", {"tenant": tenant}, bearer(key))
    assert answer.status == 201
    assert TOKENS.verify(answer.json["token"], time.time()).channel.tenant == tenant


async def test_pages_of_other_origins_are_told_the_same_by_both(
    account: Account, serve: Serve, http: aiohttp.ClientSession
) -> None:
    page, other = "https://app.example.com", "https://other.example.com"
    function = asking_function(account.session_init(EVENFLOW_ALLOWED_ORIGINS=page))
    settings: dict[str, Any] = {
        "tenant_keys": json.dumps(TENANTS),
        "token_keys": f"k1:{SIGNING_KEY}",
        "allowed_origins": page,
        "open_tenant": "public",
    }
    handler = asking_server(await serve(**settings), http)
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    as_json = {"Content-Type": "application/json"}
    statuses = []
    for origin in (page, other):
        for method, path, body, headers in (
            ("OPTIONS", "/session", None, asked),
            ("POST", "/session", {}, as_json),
            ("POST", "/session", {"tenant": "acme"}, as_json),
            ("POST", "/session", b"{", as_json),
            ("POST", "/session", {}, {"Content-Type": "text/plain"}),
            ("POST", "/session", {}, as_json | {"Content-Encoding": "gzip"}),
            ("GET", "/session", None, {}),
        ):
            answers = [
                await ask(method, path, body, {"Origin": origin} | headers)
                for ask in (function, handler)
            ]
            told = [
                {
                    name: value
                    for name, value in answer.headers.items()
                    if name.startswith(("Access-Control-", "Vary"))
                }
                for answer in answers
            ]
            assert told[0] == told[1]
            assert told[0].get("Access-Control-Allow-Origin") == (page if origin == page else None)
            assert answers[0].status == answers[1].status
            statuses.append(answers[0].status)
    assert statuses == [
        *(204, 201, 401, 400, 201, 415, 405),
        *(405, 201, 401, 400, 415, 415, 405),
    ]


WRONG_BODIES = [
    {"tenant": ""},
    {"tenant": "a" * 65},
    {"tenant": "a:b"},
    {"agent": "ä"},
    {"agent": 7},
    {"session_id": "a b"},
    {"session_id": "x\n"},
    {"session_id": "a/b"},
    {"tenant": ["public"]},
    [],
    "public",
    b"{",
    b"\xff",
    b"null",
    b'{"session_id": "\\ud800"}',
    b" ",
]
WRONG_KEYS = [
    {},
    {"Authorization": ""},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer "},
    {"Authorization": f"Basic {ACME_KEY}"},
    {"Authorization": ACME_KEY},
    bearer("ÿ"),
    bearer(GLOBEX_KEY),
]
LARGE = b'{"tenant": "' + b"x" * 65_536 + b'"}'
REFUSALS: list[tuple[str, str, object, dict[str, str], int, tuple[str, ...]]] = [
    *(
        ("POST", "/session", body, {}, 400, ("invalid_json", "invalid_field"))
        for body in WRONG_BODIES
    ),
    *(
        ("POST", "/session", body, JSON_TYPE, 400, ("invalid_json", "invalid_field"))
        for body in WRONG_BODIES
    ),
    *(
        ("POST", "/session", {"tenant": "acme"}, headers, 401, ("tenant_key_invalid",))
        for headers in WRONG_KEYS
    ),
    ("POST", "/session", {"tenant": "unknown"}, bearer(ACME_KEY), 401, ("tenant_key_invalid",)),
    ("POST", "/session", LARGE, {}, 413, ("message_too_large",)),
    ("POST", "/session", LARGE, JSON_TYPE, 413, ("message_too_large",)),
    *(
        (method, "/session", None, {}, 405, ("method_not_allowed",))
        for method in ("GET", "PUT", "DELETE", "OPTIONS")
    ),
    ("GET", "/session", LARGE, {}, 405, ("method_not_allowed",)),
    ("POST", "/session/", None, {}, 404, ("path_not_found",)),
    ("POST", "/sessions", None, {}, 404, ("path_not_found",)),
    ("GET", "/" + "x" * 500, None, {}, 404, ("path_not_found",)),
]
TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
         405: "invalid_request_error", 413: "invalid_request_error"}  # fmt: skip


def refusal_headers(answer: HttpAnswer) -> dict[str, str | None]:
    names = ("Content-Type", "Cache-Control", "WWW-Authenticate", "Retry-After", "Allow")
    return {name: answer.headers.get(name) for name in names}


@pytest.mark.parametrize(("method", "path", "body", "headers", "status", "codes"), REFUSALS)
async def test_a_refusal_is_the_same_from_both(
    function: LambdaFunction,
    server: LocalServer,
    http: aiohttp.ClientSession,
    method: str,
    path: str,
    body: object,
    headers: dict[str, str],
    status: int,
    codes: tuple[str, ...],
) -> None:
    answers = [
        await asking_server(server, http)(method, path, body, headers),
        await asking_function(function)(method, path, body, headers),
    ]
    for answer in answers:
        assert answer.status == status
        assert answer.error["type"] == TYPES[status]
        assert answer.error["code"] in codes
        assert b"key-of" not in answer.body
        assert refusal_headers(answer) == {
            "Content-Type": "application/json",
            "Cache-Control": "no-store",
            "WWW-Authenticate": "Bearer" if status == 401 else None,
            "Retry-After": None,
            "Allow": "POST" if status == 405 else None,
        }
    assert answers[0].json == answers[1].json


@pytest.mark.parametrize("tenant", ["anybody", "public"])
def test_where_the_secret_has_no_key_nobody_gets_in(own_account: Account, tenant: str) -> None:
    function = own_account.session_init(EVENFLOW_OPEN_TENANT="")
    answer = function.call("POST", "/session", encoded({"tenant": tenant}))
    assert (answer.status, answer.error["code"]) == (401, "tenant_key_invalid")


def test_the_open_tenant_has_a_key_and_needs_none(emulated_aws: AwsEmulator) -> None:
    """The deployment makes its key in any case, so that opening and closing write no secret."""
    account = Account(emulated_aws, {"public": ACME_KEY})
    function = account.session_init()
    assert function.call("POST", "/session", b"{}").status == 201
    assert function.call("POST", "/session", b'{"tenant": "acme"}').status == 401
    closed = account.session_init(EVENFLOW_OPEN_TENANT="")
    assert closed.call("POST", "/session", b"{}").status == 401


async def test_the_handler_takes_the_functions_token(
    function: LambdaFunction, server: LocalServer, http: aiohttp.ClientSession
) -> None:
    token = function.call("POST", "/session").json["token"]
    answer = await call(http, "GET", f"{server.http_url}/chat/message/rsp_0", headers=bearer(token))
    assert (answer.status, answer.error["code"]) == (404, "response_not_found")


# -- the function: addresses, settings, the row ----------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "host"),
    [({}, DOMAIN), ({"X-Evenflow-Host": "chat.example.com"}, "chat.example.com")],
)
def test_a_client_is_told_the_host_that_it_called(
    function: LambdaFunction, headers: dict[str, str], host: str
) -> None:
    told = function.call("POST", "/session", headers=headers).json
    assert (told["ws_url"], told["http_url"]) == (f"wss://{host}/ws", f"https://{host}")


def test_the_limits_are_settings(own_account: Account) -> None:
    function = own_account.session_init(
        EVENFLOW_SESSION_TOKEN_TTL_SECONDS="60", EVENFLOW_MESSAGE_BYTES="256"
    )
    claims = TOKENS.verify(function.call("POST", "/session").json["token"], time.time())
    assert abs(claims.expires_at - time.time() - 60) < 5
    assert function.call("POST", "/session", b" " * 257).status == 413


def test_the_row_says_when_a_session_was_first_opened(own_account: Account) -> None:
    function = own_account.session_init()
    assert function.call("POST", "/session", b'{"session_id": "mine"}').status == 201
    row = own_account.row("public:demo:mine")
    assert row is not None
    assert row.keys() == {"channel", "created_at", "expires_at"}
    assert abs(int(row["created_at"]["N"]) - time.time()) < 10
    assert int(row["expires_at"]["N"]) == int(row["created_at"]["N"]) + DAY


@pytest.mark.parametrize("expires_in", [1_000, -1_000], ids=["alive", "expired, but not deleted"])
def test_a_row_that_there_is_stays_as_it_is(own_account: Account, expires_in: int) -> None:
    was = {
        "channel": {"S": "public:demo:mine"},
        "created_at": {"N": "1"},
        "expires_at": {"N": str(int(time.time()) + expires_in)},
        "last_message_id": {"S": "m7"},
    }
    own_account.dynamodb.put_item(TableName=own_account.sessions, Item=was)
    assert (
        own_account.session_init().call("POST", "/session", b'{"session_id": "mine"}').status == 201
    )
    assert own_account.row("public:demo:mine") == was


def test_a_refused_call_writes_nothing(account: Account, function: LambdaFunction) -> None:
    assert (
        function.call("POST", "/session", b'{"tenant": "acme", "session_id": "refused"}').status
        == 401
    )
    assert account.row("acme:demo:refused") is None


# -- the function: what it depends on fails --------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def callers(listening: socket.socket) -> int:
    """How many have connected."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count


def log_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("failure", ["no such table", "unreachable", "silent"])
def test_a_session_opens_without_its_row(
    account: Account, failure: str, silent: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {
        "no such table": {"EVENFLOW_SESSIONS_TABLE": "no-sessions"},
        "unreachable": {"AWS_ENDPOINT_URL_DYNAMODB": f"http://127.0.0.1:{free_port()}"},
        "silent": {"AWS_ENDPOINT_URL_DYNAMODB": f"http://127.0.0.1:{silent.getsockname()[1]}"},
    }[failure]
    function = account.session_init(**variables, POWERTOOLS_SERVICE_NAME=uuid.uuid4().hex)
    began = time.monotonic()
    answer = function.call("POST", "/session", b"", bearer(ACME_KEY))
    assert answer.status == 201
    assert time.monotonic() - began < 20  # as boto3 comes it would wait for a minute
    # Nobody waits twice for a note, or for the tenants' records.
    assert callers(silent) == (2 if failure == "silent" else 0)
    *_, line = [line for line in log_lines(capsys) if line.get("level") == "ERROR"]
    assert line["message"].startswith("the session's row was not written")
    assert line["correlation_id"].startswith("req-")
    assert answer.json["token"] not in json.dumps(line)


@pytest.mark.parametrize("secret", ["TOKEN", "TENANT", "EDGE"])
def test_without_keys_the_call_is_refused_until_they_are_there(
    own_account: Account, secret: str
) -> None:
    name = f"late-tokens-{uuid.uuid4().hex}"
    function = own_account.session_init(**{f"EVENFLOW_{secret}_KEYS_SECRET": name})
    answer = function.call("POST", "/session")
    assert (answer.status, answer.error["type"], answer.error["code"]) == (
        503,
        "overloaded_error",
        "keys_unavailable",
    )
    assert answer.headers["Retry-After"] == "2"
    keys = {"any": EDGE_KEY if secret == "EDGE" else SIGNING_KEY}
    own_account.secrets.create_secret(Name=name, SecretString=json.dumps(keys))
    later(function, 1.0)  # not at once: a function that holds no secret asks for it with pauses
    assert function.call("POST", "/session").status == 201


@pytest.mark.parametrize("is_silent", [False, True])
def test_secrets_manager_out_of_reach(is_silent: bool, own_account: Account) -> None:
    """The function must answer before Lambda ends it: that is an answer without our error shape."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if is_silent else free_port()
        url = f"http://127.0.0.1:{port}"
        function = own_account.session_init(AWS_ENDPOINT_URL_SECRETS_MANAGER=url)
        began = time.monotonic()
        answer = function.call("POST", "/session")
    assert (answer.status, answer.error["code"]) == (503, "keys_unavailable")
    assert time.monotonic() - began < 5


def later(function: LambdaFunction, seconds: float) -> None:
    """Let its secrets and records grow old."""
    loaded = function.module
    for aging in (
        loaded._edge_keys._keys,
        loaded._signing_keys,
        loaded._tenant_keys,
        loaded._tenant_records,
    ):
        aging._wall_time = lambda: time.time() + seconds


def test_a_record_is_seen_within_five_seconds_beside_the_keys_of_the_secret(
    emulated_aws: AwsEmulator,
) -> None:
    account = Account(emulated_aws, TENANTS)
    function = account.session_init()

    def status(tenant: str, key: str) -> int:
        body = encoded({"tenant": tenant})
        return function.call("POST", "/session", body, bearer(key)).status

    assert status("initech", "evf_first") == 401
    record = Tenant(id="initech", keys=(ApiKey.of_text("k1", "evf_first"),))
    account.change_tenant("initech", record, 0)
    assert status("initech", "evf_first") == 401  # it looks no more than once in three seconds
    later(function, LOOK_SECONDS)
    assert status("initech", "evf_first") == 201
    assert status("acme", ACME_KEY) == 201
    rotated = Tenant(id="initech", keys=(ApiKey.of_text("k2", "evf_second"),))
    account.change_tenant("initech", rotated, 1)
    later(function, 2 * LOOK_SECONDS)
    assert [status("initech", key) for key in ("evf_first", "evf_second")] == [401, 201]
    account.change_tenant("initech", None, 2)
    later(function, 3 * LOOK_SECONDS)
    assert status("initech", "evf_second") == 401


def test_records_that_cannot_be_read_leave_those_that_are_known(
    emulated_aws: AwsEmulator, capsys: pytest.CaptureFixture[str]
) -> None:
    account = Account(emulated_aws, TENANTS)
    account.change_tenant("initech", Tenant(id="initech", keys=(ApiKey.of_text("k", "evf"),)), 0)
    function = account.session_init(POWERTOOLS_SERVICE_NAME=uuid.uuid4().hex)
    body = encoded({"tenant": "initech"})
    assert function.call("POST", "/session", body, bearer("evf")).status == 201
    account.dynamodb.delete_table(TableName=account.tenants)
    later(function, LOOK_SECONDS)
    assert function.call("POST", "/session", body, bearer("evf")).status == 201
    (line,) = [line for line in log_lines(capsys) if line.get("level") == "ERROR"]
    assert line["message"].startswith("the tenants' records could not be read; those that are")


def test_where_no_record_was_ever_read_only_keys_of_the_secret_open_sessions(
    account: Account,
) -> None:
    function = account.session_init(EVENFLOW_TENANTS_TABLE="no-tenants")
    body = encoded({"tenant": "acme"})
    assert function.call("POST", "/session", body, bearer(ACME_KEY)).status == 201
    for headers in ({}, bearer("evf_unknown")):
        answer = function.call("POST", "/session", b"", headers)
        assert (answer.status, answer.error["code"]) == (503, "keys_unavailable")
        assert answer.headers["Retry-After"] == "3"


def test_keys_that_it_has_last_while_secrets_manager_fails(own_account: Account) -> None:
    function = own_account.session_init()
    assert function.call("POST", "/session").status == 201
    for secret in (own_account.edge_keys, own_account.token_keys, own_account.tenant_keys):
        own_account.secrets.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)
    for age in (0, MAX_AGE_SECONDS + 1, 10 * MAX_AGE_SECONDS):
        later(function, age)
        assert function.call("POST", "/session").status == 201


def test_a_defect_is_answered_in_shape(
    own_account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = own_account.session_init()
    monkeypatch.setattr(function.module, "open_session", lambda *_args, **_named: 1 / 0)
    answer = function.call("POST", "/session")
    assert (answer.status, answer.error["type"], answer.error["code"]) == (
        500,
        "internal_error",
        "internal_error",
    )
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_a_call_past_cloudfront_is_refused_whatever_it_asks(
    function: LambdaFunction, method: str
) -> None:
    for shown in ("", "a-key-that-somebody-made-up-0123456789"):
        answer = function.call(method, "/session", b"{", {EDGE_KEY_HEADER: shown})
        assert (answer.status, answer.error["code"]) == (403, "host_not_allowed")


async def test_one_address_cannot_open_sessions_without_end_and_others_can(
    account: Account, serve: Serve, http: aiohttp.ClientSession
) -> None:
    slow: dict[str, Any] = {"sessions_per_address_per_second": 0.1, "open_tenant": "public"}
    server = await serve(**slow, tenant_keys=json.dumps(TENANTS))
    function = account.session_init(EVENFLOW_SESSIONS_PER_ADDRESS_PER_SECOND="0.1")
    for ask, header in (
        (asking_server(server, http), "X-Forwarded-For"),
        (asking_function(function), "x-evenflow-address"),
    ):
        flooding, honest = {header: "203.0.113.7"}, {header: "203.0.113.8"}
        answers = [await ask("POST", "/session", {}, flooding) for _ in range(7)]
        assert [answer.status for answer in answers] == [*[201] * 6, 429]
        assert answers[-1].error["code"] == "address_sessions"
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 10
        wrong = await ask("POST", "/session", {"tenant": "acme"}, flooding | bearer(GLOBEX_KEY))
        assert wrong.status == 429
        assert (await ask("POST", "/session", {}, honest)).status == 201
        with_key = await ask("POST", "/session", {"tenant": "acme"}, flooding | bearer(ACME_KEY))
        assert with_key.status == 201


# -- what others may read of it: logs and traces ---------------------------------------------------

_CALL = (
    "import json, sys; from evenflow.functions.session_init.handler import handler; from "
    "tests.integration.lambda_function import InvocationContext; "
    "print(json.dumps(handler(json.load(sys.stdin), InvocationContext('session_init'))))"
)


def test_neither_logs_nor_traces_hold_a_secret(own_account: Account) -> None:
    """In a process of its own, since tracing changes boto3 for good; the X-Ray daemon is a
    socket of the test.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(0.2)
        tracing = {
            "LAMBDA_TASK_ROOT": "/var/task",
            "AWS_LAMBDA_FUNCTION_NAME": "session_init",
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
            "_X_AMZN_TRACE_ID": (
                "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
            ),
            "POWERTOOLS_LOG_LEVEL": "DEBUG",
        }
        body = b'{"session_id": "mine"}'
        event = json.dumps(
            http_api_event(
                "POST",
                "/session",
                body,
                bearer("a-tenant-key-0123456789") | {EDGE_KEY_HEADER: EDGE_KEY},
            )
        )
        called = subprocess.run(
            [sys.executable, "-c", _CALL],
            cwd=ROOT,
            env=clean_environment(own_account.environment | tracing),
            input=event,
            capture_output=True,
            text=True,
            check=True,
            timeout=50,
        )
        traced = b"".join(received(daemon)).decode()
    *logged, answer = called.stdout.splitlines()
    assert sum('"ColdStart"' in line for line in logged) == 1
    token = json.loads(json.loads(answer)["body"])["token"]
    assert "## handler" in traced
    assert "GetSecretValue" in traced
    assert "UpdateItem" in traced
    for text in (traced, "\n".join(logged), called.stderr):
        for secret in (token, SIGNING_KEY, EDGE_KEY, "a-tenant-key"):
            assert secret not in text


def received(daemon: socket.socket) -> Iterator[bytes]:
    """What the socket got until now."""
    while True:
        try:
            yield daemon.recv(65_536)
        except TimeoutError:
            return


# -- rotation --------------------------------------------------------------------------------------

STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")


class Rotations:
    """Drives the rotation function as Secrets Manager does: the emulator would need Docker to
    call it.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.function = LambdaFunction(
            "rotate_signing_keys",
            account.aws.environment | {"POWERTOOLS_SERVICE_NAME": "rotate_signing_keys"},
        )

    def begin(self) -> str:
        """The state in which Secrets Manager makes the first call: the version is pending, and
        has no value.
        """
        version = str(uuid.uuid4())
        with pytest.raises(self.account.secrets.exceptions.ResourceNotFoundException):
            # The emulator makes the pending version, and then finds that it has no such function to
            # call.
            self.account.secrets.rotate_secret(
                SecretId=self.account.token_keys,
                ClientRequestToken=version,
                RotationLambdaARN="arn:aws:lambda:us-east-1:111111111111:function:rotate",
                RotationRules={"AutomaticallyAfterDays": 30},
            )
        return version

    def step(self, name: str, version: str) -> None:
        """One call."""
        self.function.invoke(
            {"Step": name, "SecretId": self.account.token_keys, "ClientRequestToken": version}
        )

    def end(self, version: str) -> None:
        """Take the label away: the emulator refuses the next rotation while the current version
        has it; AWS does not.
        """
        self.account.secrets.update_secret_version_stage(
            SecretId=self.account.token_keys, VersionStage="AWSPENDING", RemoveFromVersionId=version
        )

    def whole(self) -> None:
        """A rotation without mishap."""
        version = self.begin()
        for name in STEPS:
            self.step(name, version)
        self.end(version)

    def keys(self, **version: str) -> dict[str, str]:
        """The secret's keys; the current ones where no version is named."""
        wanted = version or {"VersionStage": "AWSCURRENT"}
        answer = self.account.secrets.get_secret_value(SecretId=self.account.token_keys, **wanted)
        keys: dict[str, str] = json.loads(answer["SecretString"])
        return keys


@pytest.fixture
def rotations(own_account: Account) -> Rotations:
    return Rotations(own_account)


def test_rotations_in_turn(rotations: Rotations) -> None:
    assert list(rotations.keys()) == ["k1"]
    rotations.whole()
    (first, second) = rotations.keys()
    assert first == "k1"
    rotations.whole()
    (signing, previous, third) = rotations.keys()
    assert (signing, previous) == (second, "k1")
    rotations.whole()
    keys = rotations.keys()
    assert list(keys)[:2] == [third, second]
    assert len({*keys, *keys.values(), first}) == 7
    assert all(len(key) >= 64 for key in keys.values())
    assert list(rotations.keys(VersionStage="AWSPREVIOUS")) == [signing, previous, third]


def test_every_step_may_be_repeated(rotations: Rotations) -> None:
    version = rotations.begin()
    for name in STEPS:
        rotations.step(name, version)
        pending = rotations.keys(VersionId=version)
        rotations.step(name, version)
        assert rotations.keys(VersionId=version) == pending
    assert rotations.keys() == pending
    for name in STEPS:  # and all of them when it is over
        rotations.step(name, version)
    assert rotations.keys() == pending


def test_until_the_last_step_the_current_keys_stay(rotations: Rotations) -> None:
    before = rotations.keys()
    version = rotations.begin()
    for name in STEPS[:-1]:
        rotations.step(name, version)
        assert rotations.keys() == before


def test_another_version_a_secret_without_rotation_and_an_unknown_step_are_refused(
    rotations: Rotations, own_account: Account
) -> None:
    with pytest.raises(Exception, match="rotation is not enabled"):
        rotations.step("createSecret", str(uuid.uuid4()))
    version = rotations.begin()
    with pytest.raises(Exception, match="not the pending one"):
        rotations.step("createSecret", str(uuid.uuid4()))
    with pytest.raises(Exception, match="no step 'eraseSecret'"):
        rotations.step("eraseSecret", version)
    assert list(rotations.keys()) == ["k1"]


@pytest.mark.parametrize(
    "pending", ["{", "{}", json.dumps({"k2": "n" * 40}), json.dumps({"k1": "n" * 40})]
)
def test_the_test_refuses_a_version_that_would_log_somebody_out(
    rotations: Rotations, own_account: Account, pending: str
) -> None:
    version = rotations.begin()
    own_account.secrets.put_secret_value(
        SecretId=own_account.token_keys,
        ClientRequestToken=version,
        SecretString=pending,
        VersionStages=["AWSPENDING"],
    )
    rotations.step("createSecret", version)
    with pytest.raises(Exception, match=r"signing keys|not valid"):
        rotations.step("testSecret", version)
    assert list(rotations.keys()) == ["k1"]


def test_a_rotation_is_seen_and_logs_nobody_out(rotations: Rotations, own_account: Account) -> None:
    function = own_account.session_init()
    rotations.whole()
    before = function.call("POST", "/session").json["token"]
    rotations.whole()
    # This environment has not looked since, and another one begins only now: each takes the other's
    # tokens.
    still = function.call("POST", "/session").json["token"]
    fresh = own_account.session_init().call("POST", "/session").json["token"]
    old_keys, new_keys = (
        SessionTokens({kid: key.encode() for kid, key in rotations.keys(**version).items()})
        for version in ({"VersionStage": "AWSPREVIOUS"}, {"VersionStage": "AWSCURRENT"})
    )
    for token in (before, still, fresh):
        old_keys.verify(token, time.time())
        new_keys.verify(token, time.time())
    assert signed_by(still) == "k1" != signed_by(fresh)
    later(function, MAX_AGE_SECONDS + 1)
    assert signed_by(function.call("POST", "/session").json["token"]) == signed_by(fresh)


def signed_by(token: str) -> str:
    kid: str = jwt.get_unverified_header(token)["kid"]
    return kid
