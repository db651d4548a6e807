"""`python -m evenflow.functions.canary smoke URL` (make smoke), and `… canary URL`.

`smoke` checks everything once. `canary` reads an answer once a minute, until Ctrl-C. The tenant's
key comes from EVENFLOW_TENANT_KEY. Exit status: 0 all is well, 1 something is wrong, 2 it can't be
tried.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from evenflow.functions.canary.checks import as_table
from evenflow.functions.canary.front_door import FrontDoor
from evenflow.functions.canary.smoke import QUESTION, CanaryCaller, canary, smoke

_EVERY_SECONDS = 60.0


def main() -> int:
    """Run; returns the exit status."""
    arguments = _arguments()
    try:
        front_door = FrontDoor(arguments.url)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    key = os.environ.get("EVENFLOW_TENANT_KEY") or None
    caller = CanaryCaller(front_door, arguments.question, arguments.tenant, key)
    if arguments.command == "smoke":
        findings = smoke(caller)
        print(as_table(findings))
        return int(any(finding.wrong is not None for finding in findings))
    try:
        return _every_minute(caller, arguments.times)
    except KeyboardInterrupt:
        return 0


def _every_minute(caller: CanaryCaller, times: int | None) -> int:
    wrong, number = False, 0
    while True:
        began = time.monotonic()
        findings = canary(caller)
        wrong = wrong or any(finding.wrong is not None for finding in findings)
        print(f"{time.strftime('%H:%M:%S')}\n{as_table(findings)}", flush=True)
        number += 1
        if number == times:
            return int(wrong)
        time.sleep(max(0.0, began + _EVERY_SECONDS - time.monotonic()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.functions.canary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("smoke", "canary"))
    parser.add_argument("url", help="the address, such as https://d111.cloudfront.net")
    parser.add_argument("--question", default=QUESTION, help="its answer should take a second")
    parser.add_argument("--tenant", default="public")
    parser.add_argument("--times", type=int, help="how many times the canary asks")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
