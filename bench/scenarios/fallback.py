"""The same response by WebSocket and by long-polling: how much later the poller has it all, and
in how many polls.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from statistics import mean
from time import monotonic

import aiohttp
import orjson

from bench import targets
from bench.client import Connection, all_idle, all_ready, open_connections, until
from bench.demo_model import Script
from bench.distributions import percentiles
from bench.evenflow import Evenflow, evenflow
from bench.plan import Plan
from bench.report import Outcome, at_most, none_of
from bench.sessions import session_tokens
from bench.verify import Tally, responses

TOKENS = (40, 200)  # an answer has between so many
TOKEN_MS = (20, 60)  # and a token every so many ms: 0.8 to 12 s in all
SPREAD_SECONDS = 3.0  # the questions are asked over this time
FINISH_SECONDS = 10.0
POLL_TIMEOUT_MS = 10_000  # the protocol's own default


@dataclass(frozen=True)
class Polled:
    """An answer as the poller had it."""

    text: str
    finished: float  # monotonic seconds
    polls: int


async def measure(plan: Plan) -> Outcome:
    plan.say(f"long-polling: {plan.answers} answers, read by WebSocket and by polls at once")
    scripts = _scripts(plan.answers)
    tokens = session_tokens(plan.answers)
    async with evenflow(admission={}) as server, aiohttp.ClientSession() as http:
        connections = await open_connections(server.ws_url, tokens)
        await all_ready(connections)
        readers = []
        for connection, script, token in zip(connections, scripts, tokens, strict=True):
            connection.ask(script.question)
            readers.append(asyncio.create_task(_poll(http, server, connection, token)))
            await asyncio.sleep(SPREAD_SECONDS / plan.answers)
        polled = await asyncio.gather(*readers)
        await all_idle(connections, FINISH_SECONDS)
    tally = Tally()
    for connection, script, answer in zip(connections, scripts, polled, strict=True):
        tally += responses(connection.frames)[connection.message_id].judged(
            script.answer, must_finish=True
        )
        tally.wrong_texts += answer.text != script.answer
    extra = [
        1_000 * (answer.finished - it.arrivals[-1])
        for it, answer in zip(connections, polled, strict=True)
    ]
    return _outcome(extra, [answer.polls for answer in polled], tally)


async def _poll(
    http: aiohttp.ClientSession, server: Evenflow, connection: Connection, token: str
) -> Polled:
    """Read the connection's response to its end, as a client without WebSocket would."""
    response_id = await _response_id(connection)
    text, next_index, polls = "", 0, 0
    while True:
        polls += 1
        async with http.get(
            f"{server.http_url}/chat/message/{response_id}",
            params={"from_index": next_index, "timeout_ms": POLL_TIMEOUT_MS},
            headers={"Authorization": f"Bearer {token}"},
        ) as answer:
            answer.raise_for_status()
            page = orjson.loads(await answer.read())
        text += page["new_text"]
        next_index = page["metadata"]["next_index"]
        if page["status"] in {"completed", "error", "cancelled"}:
            return Polled(text, monotonic(), polls)


async def _response_id(connection: Connection) -> str:
    await until(
        lambda: len(connection.frames) > 1, FINISH_SECONDS, every=0.001
    )  # session.ready, chat.response.start
    return str(orjson.loads(connection.frames[1])["response_id"])


def _scripts(count: int) -> list[Script]:
    """Answers of different lengths and speeds, the same in every run."""
    random = Random(count)
    return [
        Script(random.randint(*TOKENS), random.randint(*TOKEN_MS), seed) for seed in range(count)
    ]


def _outcome(extra_ms: list[float], polls: list[int], tally: Tally) -> Outcome:
    extra = percentiles(extra_ms)
    count = f"{len(polls)} answers"
    return Outcome(
        "fallback",
        rows=[
            at_most(
                "long-poll completes after WebSocket, p95",
                extra.p95,
                targets.FALLBACK_EXTRA_MS,
                "ms",
                f"{extra}; {count}",
            ),
            at_most(
                "polls for each response, mean",
                mean(polls),
                targets.FALLBACK_POLLS,
                "polls",
                f"most {max(polls)}; {count}",
            ),
            none_of("faults in the answers of either", tally.faults, f"{tally.deltas:,} deltas"),
        ],
        figures={
            "extra_ms": extra.as_figures(),
            "polls_mean": mean(polls),
            "polls_most": max(polls),
        },
        faults=tally.faults,
    )
