"""Many responses at once: asked for on a schedule, and judged when they have ended."""

from collections.abc import Sequence
from time import monotonic

from bench.client import Reader, sleep_until
from bench.demo_model import Script
from bench.verify import Tally


class Streams:
    """One scripted response for each of `connections`, every one with a text of its own, from
    that of `first_seed` on.
    """

    def __init__(
        self,
        connections: Sequence[Reader],
        *,
        seconds: float,
        token_ms: int,
        first_seed: int = 0,
    ) -> None:
        tokens = round(1_000 * seconds / token_ms)
        self.connections = connections
        seeds = range(first_seed, first_seed + len(connections))
        self.scripts = [Script(tokens, token_ms, seed) for seed in seeds]

    async def begin(self, spread_seconds: float) -> list[float]:
        """Ask for all of them, evenly over so many seconds. Returns when each was asked for."""
        begin, asked = monotonic(), list[float]()
        for number, (reader, script) in enumerate(zip(self.connections, self.scripts, strict=True)):
            await sleep_until(begin + spread_seconds * number / len(self.connections))
            asked.append(monotonic())
            reader.ask(script.question)
        return asked

    def judge(self, *, must_finish: bool = True) -> Tally:
        """The tally of all responses."""
        tally = Tally()
        for reader, script in zip(self.connections, self.scripts, strict=True):
            tally += reader.response().judged(script.answer, must_finish=must_finish)
        return tally
