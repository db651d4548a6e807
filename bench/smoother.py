"""`python -m bench.smoother`: what the playout smoother makes of the demo model's bursty profile,
as figures and a plot.

Answers are recorded from a real server, each piece with its time of arrival; Node then runs the
smoother's own code over these times, at 60 frames a second. Exits with 1 when the p95 of the gap on
the screen is not halved, or 250 ms or more are added at the end.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from bench.client import Connection, all_idle, all_ready, open_connections
from bench.distributions import percentiles
from bench.evenflow import evenflow
from bench.plot_smoother import plot_smoother
from bench.sessions import session_tokens
from bench.verify import DELTA_START

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/images/smoother.png"
SEEDS = (1, 2, 3, 4)
TOKENS = 600
SECONDS = 90.0
FRAME_MS = 1000 / 60
LEAST_CUT = 2.0  # times
MOST_ADDED_MS = 250.0


class TimedText(NamedTuple):
    """A piece of text, and when it arrived or was shown."""

    at_ms: float
    text: str


async def recorded() -> list[list[TimedText]]:
    """One answer for each seed, as it arrived; RuntimeError when one isn't whole."""
    async with evenflow() as server:
        connections = await open_connections(server.ws_url, session_tokens(len(SEEDS)))
        await all_ready(connections)
        for connection, seed in zip(connections, SEEDS, strict=True):
            connection.ask(f"#demo tokens={TOKENS} bursty=true seed={seed}")
        await all_idle(connections, SECONDS)
        if not all(connection.idle and connection.failure is None for connection in connections):
            raise RuntimeError(
                f"an answer did not end within {SECONDS:.0f} s, or its connection was lost"
            )
        return [_arrivals(connection) for connection in connections]


def _arrivals(connection: Connection) -> list[TimedText]:
    deltas = [
        (at, frame)
        for at, frame in zip(connection.arrivals, connection.frames, strict=True)
        if _is_delta(frame)
    ]
    begin = deltas[0][0]
    return [TimedText(1000 * (at - begin), orjson.loads(frame)["delta"]) for at, frame in deltas]


def _is_delta(frame: bytes) -> bool:
    return frame.startswith(DELTA_START)


def smoothed(answers: Sequence[Sequence[TimedText]]) -> list[list[TimedText]]:
    """What the web's own smoother shows of each. Needs Node and `web/node_modules`."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "replay.mjs"
        esbuild = ROOT / "web/node_modules/.bin/esbuild"
        source = ROOT / "web/src/smoother/replay.ts"
        subprocess.run(
            [
                esbuild,
                source,
                "--bundle",
                "--format=esm",
                "--log-level=error",
                f"--outfile={bundle}",
            ],
            check=True,
        )
        program = (
            f"import {{ replay }} from {json.dumps(bundle.as_uri())};let json = ''; for await "
            "(const part of process.stdin) json += "
            "part;console.log(JSON.stringify(JSON.parse(json).map((answer) => replay(answer, "
            f"{FRAME_MS}))));"
        )
        given = json.dumps(
            [[{"at": it.at_ms, "text": it.text} for it in answer] for answer in answers]
        )
        node = [shutil.which("node") or "node", "--input-type=module", "--eval", program]
        shown = subprocess.run(node, input=given, capture_output=True, text=True, check=True).stdout
    return [[TimedText(it["at"], it["text"]) for it in answer] for answer in json.loads(shown)]


def gaps_ms(answers: Sequence[Sequence[TimedText]]) -> NDArray[np.float64]:
    """The times between one change of the text and the next, of all answers."""
    return np.concatenate([np.diff([it.at_ms for it in answer]) for answer in answers])


def main() -> int:
    arrived = asyncio.run(recorded())
    shown = smoothed(arrived)
    if [_text(answer) for answer in shown] != [_text(answer) for answer in arrived]:
        raise RuntimeError("the smoother has shown another text than it was given")
    before, after = gaps_ms(arrived), gaps_ms(shown)
    added = max(
        late[-1].at_ms - early[-1].at_ms for early, late in zip(arrived, shown, strict=True)
    )
    p95_before, p95_after = percentiles(before).p95, percentiles(after).p95
    print(f"gap on the screen, on arrival: {percentiles(before)}, longest {before.max():.0f} ms")
    print(f"gap on the screen, smoothed:   {percentiles(after)}, longest {after.max():.0f} ms")
    print(f"p95 cut {p95_before / p95_after:.1f} times; added at the end: {added:.0f} ms at most")
    plot_smoother(arrived[0], shown[0], before, after, PICTURE)
    return 0 if p95_before >= LEAST_CUT * p95_after and added < MOST_ADDED_MS else 1


def _text(answer: Sequence[TimedText]) -> str:
    return "".join(it.text for it in answer)


if __name__ == "__main__":
    sys.exit(main())
