"""`POST /drain`: for whoever has its key."""

from __future__ import annotations

import pytest

from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, body_of

_KEY = "a key that operators have"


def _calls(key: str | None = _KEY) -> Calls:
    return Calls(Gateway().context, CHANNEL, drain_key=key)


@pytest.mark.parametrize("remote", ["127.0.0.1", "10.0.1.5"])
async def test_who_has_the_key_makes_the_task_leave(remote: str) -> None:
    calls = _calls()
    bearer = {"Authorization": f"Bearer {_KEY}"}
    answer = await calls.call("POST", "/drain", bearer, remote=remote)
    assert (answer.status, body_of(answer)) == (202, {"status": "draining"})
    assert calls.left == 1
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", f"Bearer {_KEY}x", _KEY])
async def test_another_key_or_none_changes_nothing(given: str) -> None:
    calls = _calls()
    answer = await calls.call("POST", "/drain", {"Authorization": given})
    assert (answer.status, body_of(answer)["error"]["code"]) == (401, "invalid_api_key")
    assert calls.left == 0


@pytest.mark.parametrize(
    "given", [{}, {"Authorization": "Bearer"}, {"Authorization": "Bearer None"}]
)
async def test_without_a_key_there_is_no_such_path_on_this_machine_either(
    given: dict[str, str],
) -> None:
    """A proxy that adds no header looks like this machine."""
    calls = _calls(key=None)
    answer = await calls.call("POST", "/drain", given)
    assert (answer.status, body_of(answer)["error"]["code"]) == (404, "path_not_found")
    assert calls.left == 0


async def test_it_is_a_post() -> None:
    calls = _calls()
    assert (await calls.call("GET", "/drain")).status == 405
    assert calls.left == 0
