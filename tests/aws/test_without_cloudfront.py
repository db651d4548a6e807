"""As behind a load balancer alone: handlers answer sessions and polls themselves."""

from __future__ import annotations

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.aws.running_system import HANDLERS, RunningSystem
from tests.integration.answer import Answer
from tests.integration.chat_client import demo, open_session
from tests.integration.transports import over_polls

# The first test starts the system, on a machine that others may be using.
pytestmark = pytest.mark.timeout(400)


async def test_what_one_handler_opened_and_answers_is_polled_at_each(
    system: RunningSystem, http: aiohttp.ClientSession
) -> None:
    one, other = (system.handlers[name] for name in HANDLERS)
    session = await open_session(http, one.http_url)
    accepted = await session.at(one).post("m1", None, demo(seed=7, tokens=20))
    assert accepted.status == 202, accepted.body
    for handler in (one, other):
        answer = Answer()
        await over_polls(session.at(handler), accepted.json["response_id"], answer, None)
        assert answer.text == "".join(demo_tokens(7, 20))
