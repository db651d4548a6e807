"""A handler with another order in the place of its own: `python -m bench.fairness.handler ORDER`.

The tenants of the measurement have their records. Several processes are started from here, too.
"""

import os
import sys
from functools import partial

from bench.fairness.orders import FirstComeFirstServed, RoundRobin
from bench.fairness.tenants import RECORDS
from fargate_handler import handler, supervisor
from fargate_handler.__main__ import main
from fargate_handler.orchestrator import generations

OWN, FIRST_COME, ROUND_ROBIN = "own", "first-come", "round-robin"
ORDERS = {FIRST_COME: FirstComeFirstServed, ROUND_ROBIN: RoundRobin}
_VARIABLE = "BENCH_ORDER"  # by which the processes that are started from here know it

if __name__ == "__main__":
    if sys.argv[1] in (OWN, *ORDERS):
        os.environ[_VARIABLE] = sys.argv.pop(1)
    order = ORDERS.get(os.environ[_VARIABLE])
    if order is not None:
        generations.FairQueue = order  # type: ignore[assignment,misc]
    handler.Tenants = partial(handler.Tenants, records=RECORDS)  # type: ignore[assignment,misc]
    supervisor.HANDLER = "bench.fairness.handler"
    sys.exit(main())
