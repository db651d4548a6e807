"""`python -m tests.e2e_network`: outages of the network, laptops that sleep and deployments, as a
reader has them: a real Chromium and a real Firefox, README's element, the client library and AI
SDK's `useChat`, and a TCP path that is cut, swallowed, half-open, slow, or leads to a login page.

Exits with 1 where an answer was given up, is not on the screen as the server's log has it, was
asked of the model twice, or came back too late. What was late, or did not begin, while the others
kept the machine busy is played again by itself, and that counts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import aiohttp
import uvloop

from bench.machine import raise_descriptor_limit
from tests.e2e_network import drain, matrix, report, sleep
from tests.e2e_network.browser import BrowserError
from tests.e2e_network.cells import Browser, Cell, all_cells, pairwise
from tests.e2e_network.stage import Outcome, Stage, running_stage
from tests.integration.server_process import ROOT, ServerProcess

RESULTS = ROOT / ".build" / "e2e-network"
PARTS = ("matrix", "sleep", "drain")

Scenario = tuple[str, Callable[[], Awaitable[list[Outcome]]]]
"""Its name, and what plays it."""


def main(arguments: Sequence[str]) -> int:
    """Run; returns the exit status."""
    options = _options(arguments)
    raise_descriptor_limit()
    try:
        return uvloop.run(_run(options))
    except BrowserError as error:
        print(error, file=sys.stderr)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; everything that was started has been ended", file=sys.stderr)
        return 130


async def _run(options: argparse.Namespace) -> int:
    running = asyncio.current_task()
    assert running is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    began = time.monotonic()
    folder = options.results / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    cells = _chosen(options)
    outcomes = list[Outcome]()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    say(f"{len(cells)} of {len(all_cells())} cells, {options.at_once} at once; logs in {folder}")
    async with running_stage(folder, list(Browser)) as stage:
        for browser in stage.browsers.values():
            say(browser.version)
        server = ServerProcess(stage.folder / "server.log", stage.variables("server"))
        scenarios = list(_scenarios(options.only, cells, server, stage))
        turns, done = asyncio.Semaphore(options.at_once), itertools.count(1)
        again = list[Scenario]()

        async def play(scenario: Scenario) -> None:
            async with turns:
                ended = await _played(scenario)
            is_again = any(outcome.may_be_load for outcome in ended)
            if is_again:
                again.append(scenario)
            proven = [each for each in ended if each.faults and not each.may_be_load]
            outcomes.extend(proven if is_again else ended)
            place = f"{next(done):3d}/{len(scenarios)}"
            for outcome in ended:
                say(f"{place}  {report.line(outcome)}")

        try:
            await asyncio.to_thread(server.wait_until_serving)
            async with asyncio.TaskGroup() as group:
                for scenario in scenarios:
                    group.create_task(play(scenario))
            for scenario in again:
                for outcome in await _played_alone(scenario):
                    outcomes.append(outcome)
                    say(f"again    {report.line(outcome)}")
        finally:
            await asyncio.to_thread(server.stop)
    return _conclude(folder, outcomes)


async def _played(scenario: Scenario) -> list[Outcome]:
    """What a browser or a server doesn't do is a fault of its scenario; the others go on."""
    name, play = scenario
    try:
        return await play()
    except (BrowserError, AssertionError, OSError, aiohttp.ClientError) as error:
        return [Outcome("broken", name, None, [f"{type(error).__name__}: {error}"[:500]])]


async def _played_alone(scenario: Scenario) -> list[Outcome]:
    """Up to twice: a shared machine may stand still once, also for one reader."""
    ended = await _played(scenario)
    return await _played(scenario) if any(each.may_be_load for each in ended) else ended


def _chosen(options: argparse.Namespace) -> list[Cell]:
    cells = all_cells() if options.all else pairwise(all_cells())
    if "matrix" not in options.only:
        cells = []
    chosen = [cell for cell in cells if options.cell in " ".join(str(cell).split())]
    return sorted(chosen, key=lambda cell: cell.seconds, reverse=True)


def _scenarios(
    only: Sequence[str], cells: Sequence[Cell], server: ServerProcess, stage: Stage
) -> Iterator[Scenario]:
    """The longest first: the others then fill the gaps."""
    if "sleep" in only:
        for nap in sleep.NAPS:
            yield nap.name, partial(sleep.play, nap, stage)
    if "drain" in only:
        for leaving in drain.DRAINS:
            yield leaving.name, partial(drain.play, leaving, stage)
    for cell in cells:
        yield str(cell), partial(matrix.play, cell, server, stage)


def _conclude(folder: Path, outcomes: Sequence[Outcome]) -> int:
    failed = report.failures(outcomes)
    verdict = (
        f"FAILED, {len(failed)}:\n" + "\n".join(failed)
        if failed
        else f"all {len(outcomes)} readers got their whole answers"
    )
    table = "\n".join(report.line(outcome) for outcome in sorted(outcomes, key=_place))
    text = "\n\n".join((table, "\n".join(report.summary(outcomes)), verdict)) + "\n"
    report.write(folder, outcomes, text)
    print(f"\n{text}")
    return 1 if failed else 0


def _place(outcome: Outcome) -> tuple[str, str]:
    return outcome.group, outcome.name


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e_network", description=__doc__)
    parser.add_argument(
        "--all", action="store_true", help="every cell (an hour), not only each pair of values"
    )
    parser.add_argument(
        "--cell", default="", help="only cells whose line has this, e.g. '20 s black hole'"
    )
    parser.add_argument(
        "--only", default=PARTS, type=lambda text: text.split(","), help=", ".join(PARTS)
    )
    parser.add_argument(
        "--at-once", type=int, default=8, help="so many readers or groups of them (default 8)"
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder (default %(default)s)"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"there is no part {unknown.pop()}; there are {', '.join(PARTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
