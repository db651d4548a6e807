"""How much is measured: every count and duration of a run, for the full run and the quick one."""

import sys
from dataclasses import dataclass, replace
from time import monotonic

from bench.machine import capacity


@dataclass(frozen=True)
class Plan:
    """Counts are connections or streams, durations are seconds, rates are per second."""

    started: float  # monotonic seconds, comparable between processes
    connections: int  # of the memory and saturation rounds
    rounds: int  # bare and Evenflow take turns this many times
    saturation_seconds: float
    jitter_counts: tuple[int, ...]
    jitter_seconds: float
    encoder_rounds: int  # of a thousand tokens each: the encoders take turns this many times
    sse_rounds: int  # the transports take turns this many times
    sse_streams: int  # of each, whose work fits into the shortest interval
    sse_readers: tuple[int, ...]  # of each, with a frame every 100 ms
    trace_seconds: float  # of the recorded requests
    setup_seconds: float
    setups: tuple[tuple[int, int], ...]  # new connections a second, streams beside them
    relay_streams: int
    relay_seconds: float
    relay_steps: tuple[int, ...]  # streams of the saturation run, until they don't keep up
    burst_counts: tuple[int, ...]  # questions within 100 ms
    answers: int  # of the long-poll comparison
    ended_answers: int  # whose memory is measured, over all rounds
    ended_rounds: int
    feature_rounds: int  # the features take turns this many times
    feature_answers: int  # at once
    crowd: int  # connections that several processes hold together
    crowd_streaming: int
    audience: int  # readers of one answer
    audience_steps: tuple[int, ...]  # at the default window, until the server's core is full
    most_connections: int  # that one client process may hold here

    def say(self, text: str) -> None:
        """A progress line on stderr; the table alone goes to stdout."""
        print(f"[{monotonic() - self.started:5.0f} s] {text}", file=sys.stderr, flush=True)


def full_plan() -> Plan:
    """The counts that the targets are for."""
    return Plan(
        started=monotonic(),
        connections=10_000,
        rounds=3,
        saturation_seconds=4.0,
        jitter_counts=(500, 2_000, 5_000, 10_000),
        jitter_seconds=5.0,
        encoder_rounds=500,
        sse_rounds=3,
        sse_streams=4_000,
        sse_readers=(5_000, 10_000),
        trace_seconds=60.0,
        setup_seconds=5.0,
        setups=((2_000, 0), (2_000, 2_000), (500, 10_000), (2_000, 10_000)),
        relay_streams=100,
        relay_seconds=5.0,
        relay_steps=(400, 700, 1_000, 1_500, 2_000, 2_500),
        burst_counts=(5_000, 10_000),
        answers=50,
        ended_answers=10_000,
        ended_rounds=20,
        feature_rounds=5,
        feature_answers=300,
        crowd=50_000,
        crowd_streaming=15_000,
        audience=20_000,
        audience_steps=(2_000, 4_000, 6_000),
        most_connections=sys.maxsize,
    )


def quick_plan() -> Plan:
    """The same code at counts that say little about the targets."""
    return replace(
        full_plan(),
        connections=2_000,
        rounds=1,
        saturation_seconds=2.0,
        jitter_counts=(500, 2_000),
        jitter_seconds=2.0,
        encoder_rounds=30,
        feature_rounds=1,
        feature_answers=100,
        sse_rounds=1,
        sse_streams=1_000,
        sse_readers=(1_000,),
        trace_seconds=10.0,
        setup_seconds=2.0,
        setups=((2_000, 0), (2_000, 500)),
        relay_seconds=2.0,
        relay_steps=(300, 600),
        burst_counts=(2_000,),
        answers=20,
        ended_answers=1_500,
        ended_rounds=3,
        crowd=3_000,
        crowd_streaming=900,
        audience=4_000,
        audience_steps=(1_000,),
    )


def fitted(plan: Plan) -> Plan:
    """The plan with its counts cut to what this machine allows; says so, and what to do about
    it.
    """
    room = capacity()
    if max(plan.connections, *plan.jitter_counts, *plan.burst_counts) > room.connections:
        plan.say(
            f"SCALED DOWN to {room.connections:,} connections by {room.limit}; raise that limit "
            "for the full counts"
        )
    return replace(
        plan,
        connections=min(plan.connections, room.connections),
        sse_streams=min(plan.sse_streams, room.connections),
        sse_readers=tuple(sorted({min(count, room.connections) for count in plan.sse_readers})),
        audience=min(plan.audience, room.connections),
        jitter_counts=tuple(sorted({min(count, room.connections) for count in plan.jitter_counts})),
        burst_counts=tuple(sorted({min(count, room.connections) for count in plan.burst_counts})),
        setups=tuple(
            (rate, beside) for rate, beside in plan.setups if rate + beside <= room.connections
        ),
        most_connections=room.connections,
    )
