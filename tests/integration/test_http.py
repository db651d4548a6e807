"""The HTTP endpoints: what each answers, and that every refusal has the one shape."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import ChatSession, call, chat_message, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import RawWebSocket
from tests.integration.server_process import free_port

_QUICK = demo(tokens=30, gap_ms=5, seed=3)
_QUICK_TEXT = "".join(demo_tokens(3, 30))
_ACME_KEY, _GLOBEX_KEY = "key-of-acme-0123456789", "key-of-globex-0123456789"


# -- sessions --------------------------------------------------------------------------------------


async def test_a_session(http: aiohttp.ClientSession, shared_server: LocalServer) -> None:
    for body in (None, {}, {"tenant": "public", "agent": "demo"}):
        answer = await call(http, "POST", f"{shared_server.http_url}/session", body)
        assert answer.status == 201
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
        assert told["session_id"].startswith("ses_")
        assert len(told["session_id"]) >= 4 + 22
        assert told["ws_url"] == shared_server.ws_url
        assert told["http_url"] == shared_server.http_url
        expires_at = datetime.fromisoformat(told["expires_at"])
        assert abs((expires_at - datetime.now(UTC)).total_seconds() - 3600) < 10


async def test_a_second_port_takes_the_same_and_websockets_are_sent_there(
    http: aiohttp.ClientSession, opened: OpenSession, serve: Serve
) -> None:
    second = free_port()
    server = await serve(ws_port=second)
    session = await opened(server)
    assert session.ws_url == f"ws://127.0.0.1:{second}/ws"
    page = await http.get(server.http_url)
    assert session.ws_url in page.headers["Content-Security-Policy"]
    for port in (second, server.port):
        assert (await call(http, "GET", f"http://127.0.0.1:{port}/health")).status == 200
        session.ws_url = f"ws://127.0.0.1:{port}/ws"
        async with session.connect() as connection:
            assert connection.ready["session_id"] == session.session_id


async def test_a_named_session_is_continued(serve: Serve, opened: OpenSession) -> None:
    server = await serve(agents_json='{"demo": {}, "other": {}}')
    first = await opened(server, session_id="my-own.session_1")
    assert first.session_id == "my-own.session_1"
    response_id = (await first.post("m1", None, _QUICK)).json["response_id"]
    again = await opened(server, session_id="my-own.session_1")
    assert (await again.poll_whole(response_id))[1] == _QUICK_TEXT
    # The session of another tenant or agent is another one, whatever its name.
    for names in ({"tenant": "other"}, {"agent": "other"}):
        stranger = await opened(server, session_id="my-own.session_1", **names)
        assert (await stranger.poll(response_id)).status == 404


@pytest.mark.parametrize(
    "body",
    [
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
    ],
)
async def test_a_wrong_session_request(
    http: aiohttp.ClientSession, shared_server: LocalServer, body: object
) -> None:
    answer = await call(http, "POST", f"{shared_server.http_url}/session", body)
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert answer.error["code"] in ("invalid_json", "invalid_field")


async def test_tenant_keys(http: aiohttp.ClientSession, serve: Serve) -> None:
    server = await serve(tenant_keys=json.dumps({"acme": _ACME_KEY, "globex": _GLOBEX_KEY}))
    url = f"{server.http_url}/session"

    async def status(tenant: str, authorization: str | None) -> int:
        headers = {"Authorization": authorization} if authorization is not None else {}
        answer = await call(http, "POST", url, {"tenant": tenant}, headers=headers)
        if answer.status != 201:
            assert (answer.error["type"], answer.error["code"]) == (
                "authentication_error",
                "tenant_key_invalid",
            )
            assert "key-of" not in answer.body.decode()
        return answer.status

    assert await status("acme", f"Bearer {_ACME_KEY}") == 201
    assert await status("public", None) == 401
    for wrong in (
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {_GLOBEX_KEY}",
        f"Basic {_ACME_KEY}",
        "Bearer ÿ",
        _ACME_KEY,
    ):
        assert await status("acme", wrong) == 401, wrong
    assert await status("unknown", f"Bearer {_ACME_KEY}") == 401
    keyed = await call(
        http, "POST", url, {"tenant": "acme"}, headers={"Authorization": f"Bearer {_ACME_KEY}"}
    )
    session = ChatSession(http, keyed.json)
    posted = await session.post("m1", None, _QUICK)
    assert (await session.poll_whole(posted.json["response_id"]))[1] == _QUICK_TEXT


# -- messages --------------------------------------------------------------------------------------


async def test_a_message_is_accepted_once(opened: OpenSession) -> None:
    session = await opened()
    first = await session.post("m1", None, _QUICK)
    assert first.status == 202
    assert first.json.keys() == {"response_id", "message_id", "status"}
    assert first.json["message_id"] == "m1"
    assert first.json["status"] in ("queued", "streaming")
    again = await session.post("m1", None, _QUICK)
    assert (again.status, again.json["response_id"]) == (202, first.json["response_id"])
    last, text, _ = await session.poll_whole(first.json["response_id"])
    assert text == last["full_text"] == _QUICK_TEXT
    assert last["metadata"]["usage"]["completion_tokens"] == 30
    assert last["metadata"]["finish_reason"] == "stop"
    assert last["metadata"]["message_id"] == "m1"
    assert last["metadata"]["degraded"] is False
    assert last["metadata"]["restarted"] is None
    assert (await session.post("m1", None, _QUICK)).json["status"] == "completed"


async def test_a_causal_violation_says_what_is_expected(opened: OpenSession) -> None:
    session = await opened()
    early = await session.post("m2", "m1", "x")
    assert (early.status, early.error["code"], early.error["expected"]) == (
        409,
        "causal_violation",
        None,
    )
    assert (await session.post("m1", None, _QUICK)).status == 202
    for wrong in (None, "m0"):
        late = await session.post("m2", wrong, "x")
        assert (late.status, late.error["type"], late.error["expected"]) == (
            409,
            "conflict_error",
            "m1",
        )
    assert (await session.post("m2", "m1", _QUICK)).status == 202


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b"[]", "invalid_field"),
        ({}, "invalid_field"),
        ({"message_id": "m1"}, "invalid_field"),
        (chat_message("", None, "x"), "invalid_field"),
        (chat_message("m" * 129, None, "x"), "invalid_field"),
        (chat_message("m1", None, ""), "invalid_field"),
        ({"message_id": "m1", "payload": {"text": 5}}, "invalid_field"),
        ({"message_id": "m1", "payload": "x"}, "invalid_field"),
    ],
)
async def test_a_wrong_message(opened: OpenSession, body: object, code: str) -> None:
    answer = await (await opened()).call("POST", "/chat/message", body)
    assert (answer.status, answer.error["type"], answer.error["code"]) == (
        400,
        "invalid_request_error",
        code,
    )


async def test_the_size_of_a_message(opened: OpenSession) -> None:
    session = await opened()
    fill = 65_536 - len(json.dumps(chat_message("m1", None, "#demo tokens=1")))
    largest = json.dumps(chat_message("m1", None, "#demo tokens=1")).encode() + b" " * fill
    assert (await session.call("POST", "/chat/message", largest)).status == 202
    for body in (largest + b" ", largest * 10):
        refused = await session.call("POST", "/chat/message", body)
        assert (refused.status, refused.error["code"]) == (413, "message_too_large")
        assert refused.error["type"] == "invalid_request_error"
    refused = await session.call("POST", "/session", b" " * 100_000)
    assert (refused.status, refused.error["code"]) == (413, "message_too_large")


async def test_quotas_over_http(
    http: aiohttp.ClientSession, opened: OpenSession, serve: Serve
) -> None:
    server = await serve(
        messages_in_flight_per_session=2,
        messages_in_flight_per_tenant=3,
        messages_per_second=5,
        tenant_keys=json.dumps({"acme": _ACME_KEY}),
        open_tenant="public",
    )
    session, other = await opened(server), await opened(server)
    long = demo(tokens=3000, gap_ms=20)
    running = [
        (await session.post(f"m{n}", f"m{n - 1}" if n else None, long)).json["response_id"]
        for n in range(2)
    ]
    in_flight = await session.post("m2", "m1", long)
    assert (in_flight.status, in_flight.error["code"]) == (429, "session_in_flight")
    assert int(in_flight.headers["Retry-After"]) >= 1
    assert in_flight.error["retry_after_ms"] > 0
    assert (await other.post("m0", None, long)).status == 202
    tenant = await other.post("m1", "m0", long)
    assert (tenant.status, tenant.error["code"]) == (429, "tenant_in_flight")
    assert int(tenant.headers["Retry-After"]) >= 1
    by_key = {"Authorization": f"Bearer {_ACME_KEY}"}
    url = f"{server.http_url}/session"
    acme = await call(http, "POST", url, {"tenant": "acme"}, headers=by_key)
    elsewhere = ChatSession(http, acme.json)
    assert (await elsewhere.post("m0", None, _QUICK)).status == 202
    for response_id in running:
        assert (await session.call("POST", f"/chat/message/{response_id}/cancel")).json[
            "status"
        ] == "cancelled"
    await server.until_metric("generations_running", 1)
    # A burst of twice the rate is allowed, and then the rate.
    statuses = []
    previous = "m1"
    for number in range(2, 16):
        answer = await session.post(f"m{number}", previous, demo(tokens=0))
        statuses.append(answer.status)
        if answer.status == 202:
            previous = f"m{number}"
            await session.poll(answer.json["response_id"])
        else:
            assert (answer.status, answer.error["code"]) == (429, "rate_limited")
            assert int(answer.headers["Retry-After"]) >= 1
    assert 202 in statuses
    assert 429 in statuses


# -- errors ----------------------------------------------------------------------------------------

_PROTECTED = [
    ("POST", "/chat/message"),
    ("GET", "/chat/message/rsp_x"),
    ("POST", "/chat/message/rsp_x/cancel"),
    ("GET", "/chat/message/rsp_x/events"),
]


@pytest.mark.parametrize(("method", "path"), _PROTECTED)
async def test_everything_needs_the_token(
    http: aiohttp.ClientSession, shared_server: LocalServer, method: str, path: str
) -> None:
    url = shared_server.http_url + path
    body = chat_message("m1", None, "x") if method == "POST" else None
    cases = {
        None: "token_missing",
        "Bearer nonsense": "token_invalid",
        "Basic eA==": "token_missing",
        "": "token_missing",
    }
    for authorization, code in cases.items():
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = await call(http, method, url, body, headers=headers)
        assert (answer.status, answer.error["type"], answer.error["code"]) == (
            401,
            "authentication_error",
            code,
        )


@pytest.mark.parametrize(("method", "path"), _PROTECTED[1:])
async def test_another_sessions_response_is_not_found(
    opened: OpenSession, method: str, path: str
) -> None:
    owner, stranger = await opened(), await opened()
    response_id = (await owner.post("m1", None, demo(tokens=40, gap_ms=10, seed=7))).json[
        "response_id"
    ]
    for asked in (response_id, "rsp_unknown", "x" * 500, "%00", "%F0%9F%99%82", "rsp_%22"):
        answer = await stranger.call(method, path.replace("rsp_x", asked))
        assert (answer.status, answer.error["type"], answer.error["code"]) == (
            404,
            "not_found_error",
            "response_not_found",
        )
    assert (await owner.poll_whole(response_id))[0]["status"] == "completed"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/session", {"POST"}),
        ("PUT", "/chat/message", {"POST"}),
        ("GET", "/chat/message", {"POST"}),
        ("POST", "/chat/message/x", {"GET", "HEAD"}),
        ("PATCH", "/chat/message/x", {"GET", "HEAD"}),
        ("DELETE", "/chat/message/x/events", {"GET", "HEAD"}),
        ("GET", "/chat/message/x/cancel", {"POST"}),
        ("POST", "/health", {"GET", "HEAD"}),
        ("POST", "/metrics", {"GET", "HEAD"}),
        ("PROPFIND", "/session", {"POST"}),
    ],
)
async def test_a_wrong_method(
    opened: OpenSession, method: str, path: str, allowed: set[str]
) -> None:
    answer = await (await opened()).call(method, path)
    assert (answer.status, answer.error["type"], answer.error["code"]) == (
        405,
        "invalid_request_error",
        "method_not_allowed",
    )
    named = set(answer.headers["Allow"].replace(" ", "").split(","))
    assert allowed - {"HEAD"} <= named <= allowed


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/chat",
        "/chat/message/",
        "/chat/message/x/events/y",
        "/session/",
        "/%00",
        "/../etc/passwd",
        "/v1",
    ],
)
async def test_an_unknown_path(opened: OpenSession, path: str) -> None:
    session = await opened()
    for method in ("GET", "POST", "DELETE"):
        answer = await session.call(method, path)
        assert (answer.status, answer.error["type"], answer.error["code"]) == (
            404,
            "not_found_error",
            "path_not_found",
        )


async def test_the_websocket_is_not_here(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    answer = await call(http, "GET", f"{shared_server.http_url}/ws")
    assert (answer.status, answer.error["code"]) == (426, "upgrade_required")
    # RFC 9110, 15.5.22: a 426 names the protocol.
    assert answer.headers["Upgrade"] == "websocket"


_NO_HTTP = [
    b"nonsense\r\n\r\n",
    b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /health HTTP/9.9\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
    b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    (
        b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    ),
    (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    ),
]


async def test_what_is_no_http_is_refused_without_a_traceback_in_the_log(serve: Serve) -> None:
    """A scanner must not be able to fill the log with tracebacks."""
    server = await serve()
    for request_head in _NO_HTTP:
        async with await RawWebSocket.connect(server.port) as raw:
            raw.write(request_head)
            await raw.read_head()
            assert 400 <= raw.status < 500, request_head[:40]
            checked_error(json.loads(await raw.read_body()))


async def test_an_unmet_expectation_has_the_shape(shared_server: LocalServer) -> None:
    async with await RawWebSocket.connect(shared_server.port) as raw:
        raw.write(
            b"POST /session HTTP/1.1\r\nHost: localhost\r\nExpect: the-unexpected\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        await raw.read_head()
        assert raw.status == 417
        checked_error(json.loads(await raw.read_body()))


async def test_a_forgotten_response_is_gone(opened: OpenSession, serve: Serve) -> None:
    server = await serve(response_ttl_seconds=0.5)
    session, stranger = await opened(server), await opened(server)
    posted = await session.post("m1", None, _QUICK)
    response_id = posted.json["response_id"]
    assert (await session.poll_whole(response_id))[0]["status"] == "completed"
    await server.until_metric("responses_held", 0)
    for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/events")):
        gone = await session.call(method, f"/chat/message/{response_id}{path}")
        assert (gone.status, gone.error["type"], gone.error["code"]) == (
            410,
            "not_found_error",
            "response_expired",
        )
    again = await session.post("m1", None, _QUICK)
    assert (again.status, again.error["code"]) == (410, "response_expired")
    assert (await stranger.poll(response_id)).status == 404
    async with session.connect() as connection:
        await connection.send("response.resume", response_id=response_id, after=-1)
        assert checked_error(await connection.next_of("error"))["code"] == "response_expired"
        assert (await connection.ask("m2", "m1", _QUICK)).text == _QUICK_TEXT


# -- long-poll -------------------------------------------------------------------------------------


async def test_a_normal_answer_takes_fewer_than_five_polls(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, "How does it treat slow readers?")).json[
        "response_id"
    ]
    last, text, polls = await session.poll_whole(response_id)
    assert last["full_text"] == text
    assert len(text) > 100
    assert polls < 5


async def test_the_first_poll_returns_with_the_first_delta_and_the_next_lingers(
    opened: OpenSession,
) -> None:
    session = await opened()
    began = time.monotonic()
    # A delta every 200 ms; one that lingered as the next one does would have six.
    response_id = (
        await session.post("m1", None, demo(first_token_ms=300, tokens=200, gap_ms=200, seed=5))
    ).json["response_id"]
    first = (await session.poll(response_id)).json
    assert time.monotonic() - began > 0.25
    assert first["status"] == "streaming"
    assert first["chunk_index"] <= 3
    assert "".join(demo_tokens(5, 200)).startswith(first["new_text"])
    began = time.monotonic()
    second = (await session.poll(response_id, first["metadata"]["next_index"])).json
    assert time.monotonic() - began > 0.9
    assert second["status"] == "streaming"
    # A poll that begins later lingers longer; one that ends with the response returns with it.
    third = (await session.poll(response_id, second["metadata"]["next_index"])).json
    assert (
        third["chunk_index"] - second["chunk_index"] > second["chunk_index"] - first["chunk_index"]
    )
    await session.call("POST", f"/chat/message/{response_id}/cancel")


async def test_a_poll_returns_at_once_when_the_response_ends(opened: OpenSession) -> None:
    taken: list[float] = []
    while not taken or (
        min(taken) >= 0.9 and len(taken) < 4
    ):  # the machine is shared: the best one; a poll lingers for 1 s
        session = await opened()
        response_id = (await session.post("m1", None, demo(tokens=20, gap_ms=10, seed=5))).json[
            "response_id"
        ]
        first = (await session.poll(response_id)).json
        began = time.monotonic()
        second = (await session.poll(response_id, first["metadata"]["next_index"], 30_000)).json
        taken.append(time.monotonic() - began)
        assert second["status"] == "completed"
        assert second["full_text"] == "".join(demo_tokens(5, 20))
    assert min(taken) < 0.9
    began = time.monotonic()
    again = (await session.poll(response_id, second["metadata"]["next_index"], 30_000)).json
    assert time.monotonic() - began < 15
    assert (again["new_text"], again["status"]) == ("", "completed")
    assert again["full_text"] == second["full_text"]
    assert again["chunk_index"] == second["chunk_index"]


async def test_timeout_ms_is_honoured(opened: OpenSession, serve: Serve) -> None:
    server = await serve(poll_timeout_max_ms=1_000)
    session = await opened(server)
    response_id = (await session.post("m1", None, demo(hang_after=0))).json["response_id"]
    for timeout_ms, least, most in ((0, 0.0, 3.5), (300, 0.3, 3.5), (60_000, 1.0, 30.0)):
        began = time.monotonic()
        answer = (await session.poll(response_id, 0, timeout_ms)).json
        passed = time.monotonic() - began
        assert (answer["new_text"], answer["chunk_index"], answer["status"]) == (
            "",
            -1,
            "streaming",
        )
        assert answer["metadata"]["next_index"] == 0
        assert least - 0.02 <= passed < most
    await session.call("POST", f"/chat/message/{response_id}/cancel")


@pytest.mark.parametrize(
    "query",
    [
        "from_index=999",
        "from_index=-1",
        "from_index=x",
        "from_index=1.5",
        "timeout_ms=x",
        # Fmt: skip.
        "timeout_ms=-1",
        "from_index=",
        "from_index=" + "9" * 5000,
        "from_index=1_0",
    ],
)
async def test_wrong_numbers(opened: OpenSession, query: str) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, demo(tokens=30, gap_ms=1))).json["response_id"]
    answer = await session.call("GET", f"/chat/message/{response_id}?{query}")
    assert (answer.status, answer.error["code"]) == (400, "invalid_field")
    assert answer.error["param"] == query.partition("=")[0]


async def test_polls_may_overlap(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, demo(tokens=40, gap_ms=10, seed=6))).json[
        "response_id"
    ]
    answers = await asyncio.gather(*(session.poll_whole(response_id) for _ in range(4)))
    assert {text for _, text, _ in answers} == {"".join(demo_tokens(6, 40))}


async def test_cancel_stops_it(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, demo(tokens=3000, gap_ms=20))).json["response_id"]
    waiting = asyncio.create_task(session.poll(response_id, 0, 30_000))
    first = (await waiting).json
    waiting = asyncio.create_task(
        session.poll(response_id, first["metadata"]["next_index"], 30_000)
    )
    await asyncio.sleep(0.1)
    cancelled = await session.call("POST", f"/chat/message/{response_id}/cancel")
    assert (cancelled.status, cancelled.json) == (
        200,
        {"response_id": response_id, "status": "cancelled"},
    )
    ended = (await waiting).json
    assert ended["status"] == "cancelled"
    assert ended["metadata"]["finish_reason"] == "cancelled"
    assert ended["full_text"] == first["new_text"] + ended["new_text"]
    again = await session.call("POST", f"/chat/message/{response_id}/cancel")
    assert again.json["status"] == "cancelled"
    completed = (await session.post("m2", "m1", _QUICK)).json["response_id"]
    await session.poll_whole(completed)
    assert (await session.call("POST", f"/chat/message/{completed}/cancel")).json[
        "status"
    ] == "completed"


# -- health, metrics, page -------------------------------------------------------------------------


async def test_health_and_metrics(http: aiohttp.ClientSession, shared_server: LocalServer) -> None:
    health = await call(http, "GET", f"{shared_server.http_url}/health")
    assert (health.status, health.json["status"]) == (200, "serving")
    metrics = await call(http, "GET", f"{shared_server.http_url}/metrics")
    assert metrics.status == 200
    assert metrics.headers["Content-Type"].startswith("text/plain")
    assert b"# TYPE evenflow_ws_delivery_jitter_ms histogram" in metrics.body
    for name in (b"evenflow_build_info{", b"process_open_fds "):
        assert name in metrics.body


async def test_answers_are_counted_by_route_and_status(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    url = shared_server.http_url
    wrong = {"Authorization": "Bearer wrong"}
    assert (await call(http, "GET", f"{url}/session/s/messages", headers=wrong)).status == 401
    assert (await call(http, "GET", f"{url}/nothing")).status == 404
    page = (await call(http, "GET", f"{url}/metrics")).body.decode()
    route = 'route="/session/{session_id}/messages"'
    assert f'evenflow_http_answers_total{{{route},status="401"}}' in page
    assert 'evenflow_http_answers_total{route="other",status="404"}' in page
    assert 'evenflow_http_answer_ms_count{protocol="evenflow"}' in page
    assert 'route="/metrics"' not in page
    assert await shared_server.metric("http_unauthorized_rate_part_total") >= 1


async def test_the_page(
    http: aiohttp.ClientSession, serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = tmp_path_factory.mktemp("page")
    (page / "assets").mkdir()
    (page / "index.html").write_text("<!doctype html>")
    (page / "assets" / "main.js").write_text("1")
    (page / "secret.txt").write_text("secret")
    url = (await serve(page=page)).http_url
    assert (await call(http, "GET", f"{url}/")).body == b"<!doctype html>"
    assert (await call(http, "GET", f"{url}/assets/main.js")).body == b"1"
    for path in (
        "/assets/none.js",
        "/assets/../secret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets/",
        "/assets",
    ):
        answer = await call(http, "GET", url + path)
        assert answer.status in (403, 404), path
        checked_error(answer.json)
