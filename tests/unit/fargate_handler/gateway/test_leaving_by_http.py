"""`POST /drain`: for this machine's own use."""

from __future__ import annotations

import pytest

from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, body_of


@pytest.mark.parametrize("remote", ["127.0.0.1", "::1"])
async def test_who_asks_on_this_machine_makes_the_task_leave(remote: str) -> None:
    calls = Calls(Gateway().context, CHANNEL)
    answer = await calls.call("POST", "/drain", remote=remote)
    assert (answer.status, body_of(answer)) == (202, {"status": "draining"})
    assert calls.left == 1
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("remote", ["10.0.1.5", "127.0.0.2", "::ffff:10.0.1.5", "", None])
async def test_elsewhere_there_is_no_such_path(remote: str | None) -> None:
    calls = Calls(Gateway().context, CHANNEL)
    answer = await calls.call("POST", "/drain", remote=remote)
    assert (answer.status, body_of(answer)["error"]["code"]) == (404, "path_not_found")
    assert calls.left == 0


@pytest.mark.parametrize(
    "header",
    [("Origin", "http://127.0.0.1:8080"), ("X-Forwarded-For", "127.0.0.1"), ("Via", "1.1 proxy")],
)
async def test_a_page_or_a_proxy_on_this_machine_speaks_for_somebody_else(
    header: tuple[str, str],
) -> None:
    calls = Calls(Gateway().context, CHANNEL)
    answer = await calls.call("POST", "/drain", dict([header]))
    assert (answer.status, body_of(answer)["error"]["code"]) == (404, "path_not_found")
    assert calls.left == 0


async def test_it_is_a_post() -> None:
    calls = Calls(Gateway().context, CHANNEL)
    assert (await calls.call("GET", "/drain")).status == 405
    assert calls.left == 0
