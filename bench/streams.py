"""Many responses at once: asked for on a schedule, and judged when they have ended."""

from collections.abc import Sequence
from time import monotonic

from bench.client import Connection, sleep_until
from bench.demo_model import Script
from bench.verify import Tally, responses


class Streams:
    """One scripted response for each of `connections`, every one with a text of its own, from
    that of `first_seed` on.
    """

    def __init__(
        self,
        connections: Sequence[Connection],
        *,
        seconds: float,
        token_ms: int,
        first_seed: int = 0,
    ) -> None:
        tokens = round(1_000 * seconds / token_ms)
        self.connections = connections
        seeds = range(first_seed, first_seed + len(connections))
        self._scripts = [Script(tokens, token_ms, seed) for seed in seeds]

    async def begin(self, spread_seconds: float) -> None:
        """Ask for all of them, evenly over so many seconds."""
        begin = monotonic()
        for number, (connection, script) in enumerate(
            zip(self.connections, self._scripts, strict=True)
        ):
            await sleep_until(begin + spread_seconds * number / len(self.connections))
            connection.ask(script.question)

    def judge(self, *, must_finish: bool = True) -> Tally:
        """The tally of all responses."""
        tally = Tally()
        for connection, script in zip(self.connections, self._scripts, strict=True):
            response = responses(connection.frames)[connection.message_id]
            tally += response.judged(script.answer, must_finish=must_finish)
        return tally
