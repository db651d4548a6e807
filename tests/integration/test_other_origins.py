"""Pages of other origins: what their browsers are told over HTTP, and at the WebSocket's door."""

from __future__ import annotations

import json
from collections.abc import Mapping

import aiohttp
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from tests.integration.chat_client import V1, ChatSession, HttpAnswer, call, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer

APP, LOCAL, OTHER = "https://app.example.com", "http://localhost:3000", "https://other.example.com"
_QUESTION = demo(tokens=5, gap_ms=1)
_JSON = {"Content-Type": "application/json"}
_ALLOW, _EXPOSE = "Access-Control-Allow-Origin", "Access-Control-Expose-Headers"


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    return await serve(allowed_origins=f"{APP}, {LOCAL}")


@pytest.fixture
async def open_to_all(serve: Serve) -> LocalServer:
    return await serve(allowed_origins="*")


def _preflight(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,content-type",
    }


def _cors(answer: HttpAnswer) -> dict[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name.startswith("Access-Control-")
    }


async def _answers(
    http: aiohttp.ClientSession, server: LocalServer, headers: Mapping[str, str]
) -> list[HttpAnswer]:
    """One answer of every call that a client makes, and of every kind of refusal."""
    url, told = server.http_url, dict(headers)
    session = (await call(http, "POST", f"{url}/session", {}, headers=told)).json
    own = told | {"Authorization": f"Bearer {session['token']}"}
    message = {"message_id": "m1", "previous_message_id": None, "payload": {"text": _QUESTION}}
    posted = await call(http, "POST", f"{url}/chat/message", message, headers=own)
    response = f"{url}/chat/message/{posted.json['response_id']}"
    completion = {"model": "demo", "messages": [{"role": "user", "content": _QUESTION}]}
    return [
        await call(http, "POST", f"{url}/session", {}, headers=told),
        posted,
        await call(http, "GET", response, headers=own),
        await call(http, "GET", f"{response}/events", headers=own),
        await call(http, "POST", f"{response}/cancel", headers=own),
        await call(http, "GET", f"{url}/v1/models", headers=told),
        await call(http, "POST", f"{url}/v1/chat/completions", completion, headers=told),
        await call(
            http, "POST", f"{url}/v1/chat/completions", completion | {"stream": True}, headers=told
        ),
        await call(http, "GET", f"{url}/openapi.json", headers=told),
        await call(http, "GET", f"{url}/asyncapi.json", headers=told),
        await call(http, "POST", f"{url}/session", b"{", headers=told | _JSON),
        await call(http, "GET", response, headers=told),
        await call(http, "GET", f"{url}/no/such/path", headers=told),
        await call(http, "DELETE", f"{url}/session", headers=told),
        await call(http, "GET", f"{url}/ws", headers=told),
    ]


async def test_every_answer_can_be_read_by_an_allowed_page(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    for origin in (APP, LOCAL):
        answers = await _answers(http, server, {"Origin": origin})
        assert {answer.status for answer in answers} == {200, 201, 202, 400, 401, 404, 405, 426}
        for answer in answers:
            assert answer.headers[_ALLOW] == origin
            assert answer.headers["Vary"] == "Origin"
            assert "Retry-After" in answer.headers[_EXPOSE]
            # Never with cookies: whoever has none to send must not need any.
            assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("origin", [OTHER, "null", f"{APP}:8443", "http://app.example.com", None])
async def test_another_page_gets_no_header_and_nothing_else_changes(
    http: aiohttp.ClientSession, server: LocalServer, origin: str | None
) -> None:
    answers = await _answers(http, server, {"Origin": origin} if origin else {})
    assert {answer.status for answer in answers} == {200, 201, 202, 400, 401, 404, 405, 426}
    for answer in answers:
        assert _cors(answer) == {}
        # Else a cache could give an allowed page an answer that it may not read.
        assert answer.headers["Vary"] == "Origin"


async def test_by_default_nobody_is_told_anything(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    for answer in await _answers(http, shared_server, {"Origin": APP}):
        assert _cors(answer) == {}
        assert "Vary" not in answer.headers
    refused = await call(
        http, "OPTIONS", f"{shared_server.http_url}/session", headers=_preflight(APP)
    )
    assert (refused.status, refused.error["code"], _cors(refused)) == (
        405,
        "method_not_allowed",
        {},
    )


async def test_where_all_may_call_all_are_told_the_same(
    http: aiohttp.ClientSession, open_to_all: LocalServer
) -> None:
    for origin in (APP, "null"):
        for answer in await _answers(http, open_to_all, {"Origin": origin}):
            assert answer.headers[_ALLOW] == "*"
            assert "Vary" not in answer.headers


PATHS = [
    "/session",
    "/chat/message",
    "/chat/message/rsp_1?from_index=0",
    "/chat/message/rsp_1/cancel",
    "/chat/message/rsp_1/events?after=3",
    "/v1/chat/completions",
    "/v1/models",
    "/v1/models/demo",
    "/openapi.json",
    "/no/such/path",
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_preflight_is_answered_wherever_clients_call(
    http: aiohttp.ClientSession, server: LocalServer, path: str
) -> None:
    answer = await call(http, "OPTIONS", server.http_url + path, headers=_preflight(APP))
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers[_ALLOW] == APP
    assert answer.headers["Vary"] == "Origin"
    assert {"GET", "POST"} <= set(answer.headers["Access-Control-Allow-Methods"].split(", "))
    names = set(answer.headers["Access-Control-Allow-Headers"].split(", "))
    assert {"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "*"} <= names
    assert int(answer.headers["Access-Control-Max-Age"]) == 7_200
    refused = await call(http, "OPTIONS", server.http_url + path, headers=_preflight(OTHER))
    assert refused.status in (404, 405)
    assert _cors(refused) == {}


async def test_a_plain_options_is_no_preflight(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    answer = await call(http, "OPTIONS", f"{server.http_url}/session", headers={"Origin": APP})
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert answer.headers[_ALLOW] == APP


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/metrics", 404), ("/drain", 404)])
async def test_what_is_not_for_clients_is_not_for_pages(
    http: aiohttp.ClientSession, open_to_all: LocalServer, path: str, status: int
) -> None:
    method = "POST" if path == "/drain" else "GET"
    answer = await call(http, method, open_to_all.http_url + path, headers={"Origin": APP})
    assert answer.status == status
    assert _cors(answer) == {}
    preflight = await call(
        http, "OPTIONS", open_to_all.http_url + path, headers=_preflight(APP, method)
    )
    assert (preflight.status, _cors(preflight)) == (405, {})


async def test_a_full_node_still_answers_preflights_and_its_refusal_can_be_read(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession
) -> None:
    server = await serve(allowed_origins=APP, requests_per_node=1)
    session = await opened(server)
    response_id = (await session.post("m1", None, demo(tokens=2_000, gap_ms=20))).json[
        "response_id"
    ]
    async with session.events(response_id):
        answer = await call(http, "OPTIONS", f"{server.http_url}/session", headers=_preflight(APP))
        assert answer.status == 204
        refused = await call(
            http, "POST", f"{server.http_url}/session", {}, headers={"Origin": APP}
        )
        assert (refused.status, refused.error["code"]) == (503, "node_full")
        assert (refused.headers[_ALLOW], refused.headers["Retry-After"]) == (APP, "1")
        await session.call("POST", f"/chat/message/{response_id}/cancel")


# -- what needs no preflight -----------------------------------------------------------------------

_SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
_COMPLETION = {"model": "demo", "messages": [{"role": "user", "content": _QUESTION}]}


async def _sent_by_page(
    http: aiohttp.ClientSession, server: LocalServer, origin: str, **headers: str
) -> HttpAnswer:
    told = {"Origin": origin, **{name.replace("_", "-"): value for name, value in headers.items()}}
    body = json.dumps(_COMPLETION).encode()
    return await call(http, "POST", f"{server.http_url}/v1/chat/completions", body, headers=told)


@pytest.mark.parametrize("content_type", [*_SIMPLE, ""])
@pytest.mark.parametrize("origin", [OTHER, "null", ""])
async def test_a_page_that_may_not_call_runs_nothing_with_what_needs_no_preflight(
    http: aiohttp.ClientSession, server: LocalServer, origin: str, content_type: str
) -> None:
    answer = await _sent_by_page(http, server, origin, Content_Type=content_type)
    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")
    assert answer.error["expected"] == "application/json"
    assert await server.metric("responses_completed_total") == 0
    assert await server.metric("generations_running") == 0


@pytest.mark.parametrize(
    ("origin", "headers"),
    [
        (OTHER, {"Content_Type": "application/json; charset=utf-8"}),
        (OTHER, {"Content_Type": "text/plain", "Authorization": "Bearer anything"}),
        (APP, {"Content_Type": "text/plain"}),
    ],
)
async def test_what_a_preflight_was_asked_for_or_an_allowed_page_sends_runs(
    http: aiohttp.ClientSession, server: LocalServer, origin: str, headers: dict[str, str]
) -> None:
    assert (await _sent_by_page(http, server, origin, **headers)).status == 200


async def test_the_server_s_own_page_and_programs_send_what_they_like(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    own = await _sent_by_page(http, shared_server, shared_server.http_url, Content_Type=_SIMPLE[0])
    assert own.status == 200
    url = f"{shared_server.http_url}/v1/chat/completions"
    body = json.dumps(_COMPLETION).encode()
    program = await call(http, "POST", url, body, headers={"Content-Type": _SIMPLE[1]})
    assert program.status == 200


# -- modules and assets ----------------------------------------------------------------------------


@pytest.fixture
async def serving_modules(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> LocalServer:
    page = tmp_path_factory.mktemp("page")
    (page / "client.js").write_text("export const client = 1;")
    (page / "evenflow-chat.js").write_text("export const chat = 1;")
    (page / "assets").mkdir()
    (page / "assets" / "maths-1.js").write_text("export const maths = 1;")
    return await serve(page=str(page), allowed_origins=APP)


@pytest.mark.parametrize("name", ["client", "chat"])
async def test_pages_anywhere_load_the_modules_and_ask_whether_they_are_still_the_same(
    http: aiohttp.ClientSession, serving_modules: LocalServer, name: str
) -> None:
    url = f"{serving_modules.http_url}/{'evenflow-chat' if name == 'chat' else name}.js"
    for headers in ({}, {"Origin": OTHER}, {"Origin": "null"}):
        answer = await call(http, "GET", url, headers=headers)
        assert (answer.status, answer.body) == (200, f"export const {name} = 1;".encode())
        assert answer.headers["Content-Type"] in ("text/javascript", "application/javascript")
        assert answer.headers[_ALLOW] == "*"
        assert answer.headers["Cache-Control"] == "no-cache"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Set-Cookie" not in answer.headers
    async with http.get(url, headers={"If-None-Match": answer.headers["ETag"]}) as unchanged:
        assert (unchanged.status, unchanged.headers[_ALLOW]) == (304, "*")


async def test_pages_anywhere_load_the_assets_that_the_modules_need(
    http: aiohttp.ClientSession, serving_modules: LocalServer
) -> None:
    url = f"{serving_modules.http_url}/assets/maths-1.js"
    for origin in (OTHER, APP, "null"):
        async with http.get(url, headers={"Origin": origin}) as answer:
            assert (answer.status, answer.headers.getall(_ALLOW)) == (200, ["*"])
            assert "Set-Cookie" not in answer.headers


async def test_modules_that_are_not_built_are_not_found(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(page="/no/page/here")
    answer = await call(http, "GET", f"{server.http_url}/client.js")
    assert (answer.status, answer.error["code"]) == (404, "path_not_found")


# -- WebSockets ------------------------------------------------------------------------------------


async def _ready(session: ChatSession, origin: str | None) -> str:
    protocols = [Subprotocol(V1), Subprotocol(f"bearer.{session.token}")]
    page = None if origin is None else Origin(origin)
    async with connect(
        session.ws_url, origin=page, subprotocols=protocols, proxy=None
    ) as websocket:
        ready: str = json.loads(await websocket.recv())["type"]
        return ready


async def test_where_origins_are_named_their_pages_may_connect_and_the_server_s_own(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    # A program says no origin; the page is of the same host.
    for origin in (APP, LOCAL, None, server.http_url):
        assert await _ready(session, origin) == "session.ready"


@pytest.mark.parametrize("origin", [OTHER, "null", "http://127.0.0.1:3000", "nonsense", ""])
async def test_where_origins_are_named_other_pages_are_refused(
    opened: OpenSession, server: LocalServer, origin: str
) -> None:
    session = await opened(server)
    with pytest.raises(InvalidStatus) as refused:
        await _ready(session, origin)
    response = refused.value.response
    error = checked_error(json.loads(response.body))
    assert (response.status_code, error["type"], error["code"]) == (
        403,
        "permission_error",
        "origin_not_allowed",
    )
    assert origin in error["message"]


async def test_the_page_at_the_public_address_is_the_server_s_own(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(
        allowed_origins=APP,
        public_http_url="https://chat.example.com",
        public_ws_url="ws://ws.example.com/ws",
    )
    session = (await opened(server)).at(server)
    assert await _ready(session, "https://chat.example.com") == "session.ready"
    with pytest.raises(InvalidStatus):
        await _ready(session, "https://ws.example.com")


async def test_where_none_are_named_the_token_alone_decides(
    opened: OpenSession, shared_server: LocalServer, open_to_all: LocalServer
) -> None:
    for server in (shared_server, open_to_all):
        session = await opened(server)
        for origin in (OTHER, "null"):
            assert await _ready(session, origin) == "session.ready"
