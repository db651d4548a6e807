"""`python -m tests.attack`: hostile clients, models and pages against a real server at its
defaults, one attack after the other, and honest readers beside them.

Exits with 1 when honest readers notice an attack, memory goes beyond its bound, or what must not
happen does.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench.machine import LOAD_CORE, pin, raise_descriptor_limit
from tests.attack import report
from tests.attack.attack import Attack, Judged
from tests.attack.catalogue import ATTACKS
from tests.attack.measuring import groups, measure, strike_together
from tests.attack.plan import Plan
from tests.attack.verdict import Measured
from tests.integration.server_process import ROOT

RESULTS = ROOT / ".build" / "attack"


def main(arguments: Sequence[str]) -> int:
    """Run; returns the exit status."""
    options = _options(arguments)
    wanted = options.only.split(",") if options.only else list(ATTACKS)
    if unknown := [name for name in wanted if name not in ATTACKS]:
        print(f"there is no attack {unknown[0]}; there are {', '.join(ATTACKS)}", file=sys.stderr)
        return 2
    chosen = [ATTACKS[name] for name in wanted]
    if options.short and not options.only:
        chosen = [attack for attack in chosen if attack.short]
    raise_descriptor_limit()
    pin(LOAD_CORE)
    try:
        return uvloop.run(_run(chosen, Plan.short() if options.short else Plan()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; everything that was started has been ended", file=sys.stderr)
        return 130


async def _run(attacks: Sequence[Attack], plan: Plan) -> int:
    running = asyncio.current_task()
    assert running is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    began = time.monotonic()
    folder = RESULTS / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    print(f"{len(attacks)} attacks; logs in {folder}", flush=True)
    measured = list[Measured]()

    def say(ended: Measured) -> None:
        measured.append(ended)
        outcome = "; ".join(ended.failures) or "held"
        print(f"{time.monotonic() - began:6.1f} s  {ended.name}: {outcome}", flush=True)

    for group in groups(attacks, plan):
        logs = folder / group[0].name
        logs.mkdir()
        if group[0].judged is Judged.BY_READERS:
            for ended in await measure(group, plan, logs):
                say(ended)
        else:
            async for ended in strike_together(group, plan, logs):
                say(ended)
    return _conclude(folder, measured)


def _conclude(folder: Path, measured: Sequence[Measured]) -> int:
    failed = [it.name for it in measured if it.failures]
    verdict = f"FAILED: {', '.join(failed)}" if failed else f"all {len(measured)} attacks held"
    about = {name: attack.about for name, attack in ATTACKS.items()}
    parts = (report.table(measured), report.failures(measured, about), verdict)
    text = "\n\n".join(part for part in parts if part) + "\n"
    report.write(folder, measured, text)
    print(f"\n{text}")
    return 1 if failed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.attack",
        description=__doc__,
        epilog="\n".join(f"{name}: {attack.about}" for name, attack in ATTACKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--short", action="store_true", help="fewer and smaller ones, under 60 s")
    parser.add_argument("--only", default="", help="only these, separated by commas")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
