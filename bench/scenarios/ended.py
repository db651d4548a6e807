"""What an ended answer takes of the server's memory while readers may still come back to it.

Each connection asks again and again. The first round warms the server up, and memory is read after
it and after the last one: what has grown between is what the answers keep. The model is given no
history, which would grow with each round while it answers.
"""

from bench import targets
from bench.client import Connection, all_idle, all_ready, open_connections
from bench.evenflow import evenflow
from bench.plan import Plan
from bench.report import Outcome, at_most, none_of
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.verify import Tally

DELTAS = 200
# Of about five bytes. The demo model's tokens are from a few words that are in memory once, and as
# real ones are not: a delta of two is a text of its own.
TOKENS_PER_DELTA = 2
TOKEN_MS = 2
FINISH_SECONDS = 30.0


async def measure(plan: Plan) -> Outcome:
    tally = Tally()
    async with evenflow(batch_tokens=TOKENS_PER_DELTA, history_bytes=0) as server:
        connections = await open_connections(
            server.ws_url, session_tokens(plan.ended_answers // plan.ended_rounds)
        )
        await all_ready(connections)
        tally += await _round(connections)
        before = server.process.memory_bytes()
        for number in range(1, plan.ended_rounds + 1):
            plan.say(f"ended: round {number}/{plan.ended_rounds} of {len(connections):,} answers")
            tally += await _round(connections)
        held = server.process.memory_bytes() - before
    answers = len(connections) * plan.ended_rounds
    text_bytes = _text_bytes(connections)
    return Outcome(
        "ended",
        rows=[
            at_most(
                "memory of an ended answer",
                held / answers,
                2 * text_bytes + targets.ENDED_BYTES,
                "bytes",
                f"{answers:,} answers, each {DELTAS} deltas, {text_bytes:,.0f} bytes; VmRSS",
            ),
            none_of("gaps, duplicates, wrong texts", tally.faults, f"{tally.deltas:,} deltas"),
        ],
        figures={
            "answers": answers,
            "text_bytes": round(text_bytes),
            "held_bytes": round(held / answers),
        },
        faults=tally.faults,
    )


def _streams(connections: list[Connection]) -> Streams:
    seconds = DELTAS * TOKENS_PER_DELTA * TOKEN_MS / 1_000
    return Streams(connections, seconds=seconds, token_ms=TOKEN_MS)


async def _round(connections: list[Connection]) -> Tally:
    for connection in connections:
        connection.forget()
    streams = _streams(connections)
    await streams.begin(spread_seconds=0.2)
    await all_idle(connections, FINISH_SECONDS)
    return streams.judge()


def _text_bytes(connections: list[Connection]) -> float:
    """The mean size of an answer."""
    texts = (script.answer for script in _streams(connections).scripts)
    return sum(len(text.encode()) for text in texts) / len(connections)
