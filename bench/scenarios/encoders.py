"""What each protocol's encoder costs: frames a second of an answer whose tokens come one by one.

The encoders take turns, a thousand tokens each, so that all meet the same noise. No socket is in
it: that is the same for all of them, and in `sse` and `relay`.
"""

from statistics import median
from time import perf_counter

from bench import targets
from bench.plan import Plan
from bench.report import Outcome, at_least
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.log.response_log import ResumePoint
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.protocols.readers import KINDS, Kind

OURS = "events"  # the event stream of evenflow.v1, beside which the others are measured
TOKENS = tuple(demo_tokens(7, 1_000))


async def measure(plan: Plan) -> Outcome:
    outcome = Outcome("encoders")
    rates: dict[str, list[float]] = {kind.name: [] for kind in KINDS}
    for number in range(plan.encoder_rounds):
        if not number % 100:
            plan.say(f"encoders: round {number} of {plan.encoder_rounds}")
        for kind in KINDS:
            rates[kind.name].append((len(TOKENS) - 1) / _seconds(kind))
    ours = median(rates[OURS])
    for name, measured in rates.items():
        rate = outcome.figures[name] = round(median(measured))
        if name != OURS:
            outcome.rows.append(
                at_least(
                    f"encoder of {name}: frames a second, of those of evenflow.v1's events",
                    100 * rate / ours,
                    targets.SHARE_OF_EVENTS_PERCENT,
                    "%",
                    f"{rate:,} of {ours:,.0f}",
                )
            )
    return outcome


def _seconds(kind: Kind) -> float:
    """Seconds for one answer, token by token, each given to the reader at once."""
    stream = new_stream(HandTurnedClock())
    encoder = kind.encoder(stream, ResumePoint(0))
    append, take = stream.log.append, encoder.take
    append(TOKENS[0])
    take()  # with what begins an answer
    began = perf_counter()
    for token in TOKENS[1:]:
        append(token)
        take()
    return perf_counter() - began
