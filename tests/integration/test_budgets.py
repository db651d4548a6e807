"""Budgets through a real server: who is refused, which answers end, and what is told of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from tests.integration.chat_client import HttpAnswer, call, demo, open_session
from tests.integration.conftest import Serve
from tests.integration.deployment import AwsDeployment, LocalDeployment
from tests.integration.local_server import LocalServer
from tests.integration.scripted_model import END, Reply, chunk, scripted_model
from tests.integration.spending import BEARER, BOUND, ENDLESS, INPUT, KEY, Spender

PRICES = "demo=100000/200000"
"""Ten cents for a token of input, and twenty for one of output."""
ROOM = 100
# A change of a tenant is seen within 5 s.
_SEEN_SECONDS = 6.0


def acme(**fields: Any) -> Tenant:
    """A tenant with a key."""
    return Tenant(id="acme", keys=(ApiKey.of_text("k1", KEY),), **fields)


async def complete(
    http: aiohttp.ClientSession, server: LocalServer, text: str, **options: Any
) -> HttpAnswer:
    """A request of OpenAI's API with the tenant's key."""
    body = {"model": "demo", "messages": [{"role": "user", "content": text}], **options}
    return await call(http, "POST", f"{server.http_url}/v1/chat/completions", body, headers=BEARER)


async def usage(
    http: aiohttp.ClientSession, server: LocalServer, query: str = "", key: str = KEY
) -> HttpAnswer:
    """`GET /usage`."""
    headers = {"Authorization": f"Bearer {key}"}
    return await call(http, "GET", f"{server.http_url}/usage{query}", headers=headers)


async def settled(http: aiohttp.ClientSession, server: LocalServer, answers: int) -> Any:
    """The report once so many answers are in it."""
    while True:
        report = (await usage(http, server)).json
        if sum(day["answers"] for day in report["days"]) == answers:
            return report
        await asyncio.sleep(0.02)


async def test_what_is_used_is_told_and_what_does_not_fit_is_refused_until_the_next_month(
    deployment: LocalDeployment, http: aiohttp.ClientSession
) -> None:
    limits = QuotaLimits(dollars_per_month=40)
    assert deployment.stores.tenants is not None
    await deployment.stores.tenants.put(acme(limits=limits), 0)
    server = await deployment.handler(model_prices=PRICES)
    answer = await complete(http, server, "What is Evenflow?", max_tokens=100)
    assert answer.status == 200, answer.body
    used = answer.json["usage"]
    report = await settled(http, server, 1)
    (day,) = report["days"]
    assert (day["model"], day["input_tokens"], day["output_tokens"]) == (
        "demo",
        used["prompt_tokens"],
        used["completion_tokens"],
    )
    cost = (used["prompt_tokens"] + 2 * used["completion_tokens"]) / 10
    assert day["cost_usd"] == pytest.approx(cost)
    (budget,) = report["budgets"]
    assert (budget["of"], budget["unit"], budget["bound"]) == ("tenant", "usd", 40)
    assert (budget["committed"], budget["left"]) == pytest.approx((cost, 40 - cost))
    assert report["answers_reserved"] == 0
    refused = await complete(http, server, "What is Evenflow?", max_tokens=200)
    assert (refused.status, refused.error["code"]) == (429, "budget_exhausted")
    assert "monthly budget of this tenant" in refused.error["message"]
    assert 0 < int(refused.headers["Retry-After"]) <= 31 * 86_400
    assert (await settled(http, server, 1))["budgets"] == report["budgets"]


async def test_an_answer_that_its_budget_ends_is_cut_and_each_protocol_says_so(
    deployment: LocalDeployment, http: aiohttp.ClientSession
) -> None:
    assert deployment.stores.tenants is not None
    await deployment.stores.tenants.put(acme(limits=QuotaLimits(tokens_per_day=300)), 0)
    server = await deployment.handler(reserved_tokens=16)
    long = demo(tokens=500, gap_ms=1)
    cut = await complete(http, server, long)
    assert cut.status == 200, cut.body
    assert cut.json["choices"][0]["finish_reason"] == "length"
    (day,) = (await settled(http, server, 1))["days"]
    assert 200 <= day["input_tokens"] + day["output_tokens"] <= 300
    (budget,) = (await usage(http, server)).json["budgets"]
    assert budget["committed"] <= budget["bound"] == 300
    assert budget["left"] < 16 + 20


async def test_a_session_is_told_what_its_user_has_used_and_nothing_of_others(
    deployment: LocalDeployment, http: aiohttp.ClientSession
) -> None:
    limits = QuotaLimits(tokens_per_day=100_000)
    assert deployment.stores.tenants is not None
    await deployment.stores.tenants.put(
        Tenant(id="acme", limits=limits, user_limits=QuotaLimits(tokens_per_day=50_000)), 0
    )
    server = await deployment.handler()
    ann, bob, nobody = [
        await open_session(http, server.http_url, tenant="acme", **who)
        for who in ({"user": "ann"}, {"user": "bob"}, {})
    ]
    posted = await ann.post("m1", None, "What is Evenflow?")
    await ann.poll_whole(posted.json["response_id"])
    report: Any = {"days": []}
    while not report["days"]:
        report = (await ann.call("GET", "/usage")).json
    assert [day["answers"] for day in report["days"]] == [1]
    assert (report["tenant"], report["user"]) == ("acme", "ann")
    assert [(each["of"], each["bound"]) for each in report["budgets"]] == [("user", 50_000)]
    assert (await bob.call("GET", "/usage")).json["days"] == []
    refused = await nobody.call("GET", "/usage")
    assert (refused.status, refused.error["code"]) == (404, "usage_not_found")
    # Whoever shares names the reader, who is not believed to be that user.
    share = await bob.call("POST", f"/session/{bob.session_id}/share", {"for": "ann"})
    reader = {"Authorization": f"Bearer {share.json['token']}"}
    refused = await call(http, "GET", f"{server.http_url}/usage", headers=reader)
    assert (refused.status, refused.error["code"]) == (404, "usage_not_found")


@pytest.mark.parametrize(
    "query", ["?from=yesterday", "?to=2026-13-01", "?from=2026-11-24&to=2026-11-01"]
)
async def test_days_that_are_none_are_refused(
    query: str, deployment: LocalDeployment, http: aiohttp.ClientSession
) -> None:
    assert deployment.stores.tenants is not None
    await deployment.stores.tenants.put(acme(), 0)
    server = await deployment.handler()
    refused = await usage(http, server, query)
    assert (refused.status, refused.error["code"]) == (400, "invalid_field")


async def test_nothing_is_told_where_nobody_pays(
    deployment: LocalDeployment, http: aiohttp.ClientSession
) -> None:
    server = await deployment.handler()
    refused = await usage(http, server)
    assert (refused.status, refused.error["code"]) == (404, "usage_not_found")


@pytest.fixture(params=["file", "tables"])
def two_tasks(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], Awaitable[list[LocalServer]]]:
    """Starts two tasks that share a SQLite file, or tables of DynamoDB."""
    if request.param == "tables":
        tables: AwsDeployment = request.getfixturevalue("aws_deployment")
        return partial(tables.handlers, 2)
    serve: Serve = request.getfixturevalue("serve")
    file = str(tmp_path / "evenflow.db")

    async def on_one_file() -> list[LocalServer]:
        return [await serve(store="sqlite", store_path=file) for _ in range(2)]

    return on_one_file


async def test_of_a_thousand_at_once_two_tasks_accept_exactly_as_many_as_there_is_room_for(
    two_tasks: Callable[[], Awaitable[list[LocalServer]]],
    serve: Serve,
    http: aiohttp.ClientSession,
) -> None:
    text, longest = demo(tokens=5, first_token_ms=60_000), 100
    # Estimated: nine for the turn's frame and each three bytes of it, then the longest answer.
    each = 8 + -(-len(text) // 3) + longest
    limits = QuotaLimits(tokens_per_day=ROOM * each)
    servers = await two_tasks()
    stored = servers[0].handler._adapters.stores.tenants
    assert stored is not None
    await stored.put(acme(limits=limits), 0)
    await serve.time_passes(_SEEN_SECONDS)
    asking = [
        asyncio.create_task(complete(http, servers[number % 2], text, max_tokens=longest))
        for number in range(10 * ROOM)
    ]
    refused: Counter[tuple[int, str]] = Counter()
    for answered in islice(asyncio.as_completed(asking), 9 * ROOM):
        answer = await answered
        refused[answer.status, answer.error["code"]] += 1
    reserved = [await server.metric("messages_reserved") for server in servers]
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    assert refused == {(429, "budget_exhausted"): 9 * ROOM}
    assert sum(reserved) == ROOM


_CHAT, _RESPONSES, _MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
_HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("cap", [None, 100])
@pytest.mark.parametrize(
    ("path", "parameters", "longest"),
    [
        (_CHAT, {"max_tokens": 50}, 50),
        (_CHAT, {"max_completion_tokens": 50}, 50),
        (_CHAT, {"n_predict": 50}, 50),
        (_CHAT, {"maxNewTokens": 50}, 50),
        (_CHAT, {"max_tokens": 50, "a_length_of_tomorrow": 20_000}, 50),
        (_CHAT, {"max_tokens": 50, "n": 2}, 100),
        (_CHAT, {}, None),
        (_RESPONSES, {"max_output_tokens": 50}, 50),
        (_RESPONSES, {"max_completion_tokens": 20_000}, 20_000),
        (_MESSAGES, {"max_tokens": 50}, 50),
        (_CHAT, {"max_tokens": -1}, 0),
        (_CHAT, {"max_tokens": 0}, 0),
        (_CHAT, {"max_completion_tokens": -1}, 0),
        (_CHAT, {"max_tokens": 50, "n_predict": 20_000}, 0),
        (_CHAT, {"max_tokens": 50, "max_new_tokens": 20_000}, 0),
        (_CHAT, {"max_tokens": 50, "options": {"num_predict": 20_000}}, 0),
        (_CHAT, {"max_tokens": 50, "min_tokens": 20_000}, 0),
        (_CHAT, {"max_tokens": 50, "best_of": 20}, 0),
        (_RESPONSES, {"max_output_tokens": 50, "max_tokens": 20_000}, 0),
        (_RESPONSES, {"max_tokens": -1}, 0),
    ],
)
async def test_no_parameter_has_more_spent_than_is_reserved(
    serve: Serve,
    http: aiohttp.ClientSession,
    path: str,
    parameters: dict[str, Any],
    longest: int | None,
    cap: int | None,
) -> None:
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, ENDLESS), END]))
        capped: dict[str, Any] = {} if cap is None else {"model_max_tokens": cap}
        server = await serve(model="openai", model_url=model.url, **capped)
        spender = Spender(http, server)
        await spender.begin(serve)
        asked = {"input": "hi"} if path == _RESPONSES else {"messages": _HI}
        answer = await spender.ask(path, model="openai", **asked, **parameters)
        if longest == 0:
            assert (answer.status, model.requests) == (400, []), answer.body
            return
        choices = parameters.get("n", 1)
        most = min(longest or BOUND - INPUT, BOUND if cap is None else cap * choices)
        if INPUT + (longest or 0) > BOUND and cap is None:
            assert (answer.status, model.requests) == (429, [])
            return
        assert answer.status == 200, answer.body
        assert await spender.committed() <= INPUT + most + 1


async def test_a_chat_of_an_agent_spends_no_more_than_is_reserved(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, ENDLESS), END]))
        agents = '{"demo": {"max_tokens": 50}}'
        server = await serve(model="openai", model_url=model.url, agents_json=agents)
        spender = Spender(http, server)
        await spender.begin(serve)
        session = await spender.session()
        posted = await session.post("m1", None, "hi")
        assert posted.status == 202, posted.body
        assert await spender.committed() <= INPUT + 50 + 1
        assert model.requests[0]["max_tokens"] == 50
