"""A handler with another order in the place of its own: `python -m bench.fairness.handler ORDER`.

The tenants of the measurement have their records. Several processes are started from here, too.
"""

import asyncio
import os
import sys
import time
from contextlib import closing
from pathlib import Path

from bench.fairness.orders import FirstComeFirstServed, RoundRobin
from bench.fairness.tenants import RECORDS
from evenflow.fargate_handler import supervisor
from evenflow.fargate_handler.__main__ import main
from evenflow.fargate_handler.orchestrator import generations
from evenflow.stream_sqlite.stores import SQLiteStores

OWN, FIRST_COME, ROUND_ROBIN = "own", "first-come", "round-robin"
ORDERS = {FIRST_COME: FirstComeFirstServed, ROUND_ROBIN: RoundRobin}
_VARIABLE = "BENCH_ORDER"  # by which the processes that are started from here know it


async def _put_records(path: Path) -> None:
    """Put the tenants' records into the store of the handler that is about to start."""
    with closing(SQLiteStores(path, time.time)) as stores:
        for tenant in RECORDS:
            await stores.tenants.put(tenant, await stores.tenants.revision())


if __name__ == "__main__":
    if sys.argv[1] in (OWN, *ORDERS):
        os.environ[_VARIABLE] = sys.argv.pop(1)
        asyncio.run(_put_records(Path(os.environ["EVENFLOW_STORE_PATH"])))
    order = ORDERS.get(os.environ[_VARIABLE])
    if order is not None:
        vars(generations)["FairQueue"] = order
    supervisor.HANDLER = "bench.fairness.handler"
    sys.exit(main())
