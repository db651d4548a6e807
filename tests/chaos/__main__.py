"""`python -m tests.chaos`: three handlers, a load that checks every index, and everything that can
go wrong.

Exits with 1 on any gap, duplicate, wrong byte, answer without an end, or call of the model that was
made twice.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import aiohttp
import uvloop

from tests.chaos import report
from tests.chaos.campaign import ALL_FAULTS, WHOLE, Campaign
from tests.chaos.faults import SHORT
from tests.chaos.plan import Plan
from tests.chaos.system import running_system
from tests.integration.server_process import ROOT

RESULTS = ROOT / ".build" / "chaos"


def main(arguments: Sequence[str]) -> int:
    """Run; returns the exit status."""
    options = _options(arguments)
    plan = Plan.short(options.seed) if options.short else Plan(options.seed)
    if options.answers:
        plan = replace(plan, answers=options.answers)
    faults = (
        options.faults.split(",") if options.faults else list(SHORT if options.short else WHOLE)
    )
    if unknown := [name for name in faults if name not in ALL_FAULTS]:
        print(f"there is no fault {unknown[0]}; there are {', '.join(ALL_FAULTS)}", file=sys.stderr)
        return 2
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Looking through all objects would stop thousands of clients for half a second, which is not
    # what they measure.
    gc.set_threshold(20_000, 1_000_000_000, 1_000_000_000)
    try:
        return uvloop.run(_run(plan, faults))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; everything that was started has been ended", file=sys.stderr)
        return 130


async def _run(plan: Plan, faults: Sequence[str]) -> int:
    began = time.monotonic()
    running = asyncio.current_task()
    assert running is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    folder = RESULTS / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    say(
        f"seed {plan.seed}, {plan.answers:,} answers in flight, faults {', '.join(faults)}; "
        f"results in {folder}"
    )
    connector = aiohttp.TCPConnector(limit=0)
    cookies = aiohttp.DummyCookieJar()
    async with (
        aiohttp.ClientSession(connector=connector, cookie_jar=cookies) as http,
        running_system(plan, folder, say) as system,
    ):
        campaign = Campaign(plan, system, http, folder, say)
        await campaign.run(faults)
    return _conclude(folder, plan, campaign)


def _conclude(folder: Path, plan: Plan, campaign: Campaign) -> int:
    windows = campaign.windows
    failed = [window.fault for window in windows if window.failed]
    verdict = (
        f"FAILED: {', '.join(failed)}" if failed else "nothing lost, nothing twice, nothing wrong"
    )
    parts = (
        report.table(windows),
        report.notes(windows),
        "\n".join(report.targets(windows, plan)),
        verdict,
    )
    text = "\n\n".join(part for part in parts if part) + "\n"
    report.write(folder, plan, windows, text)
    print(f"\n{text}")
    return 1 if failed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="fewer answers and faults, under 100 s"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of everything that is drawn (default 1)"
    )
    parser.add_argument("--answers", type=int, help="how many are in flight when a fault strikes")
    parser.add_argument(
        "--faults", default="", help=f"only these, separated by commas: {', '.join(ALL_FAULTS)}"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
