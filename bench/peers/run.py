"""One system after the other, each measured in a process of its own."""

import asyncio
import gc
import signal
import traceback
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import uvloop

from bench.machine import LOAD_CORE, pin
from bench.peers.measure import Plan, measure
from bench.peers.systems import SYSTEMS, System
from bench.processes import end_with_parent

LONGEST_SECONDS = 240.0  # of one system; then it is given up


def measured(system: System, plan: Plan) -> dict[str, Any]:
    """In a process of its own, so that no memory or garbage of another is in its figures."""
    if missing := system.missing():
        return {"failure": f"not installed: {missing}"}
    receiver, sender = get_context("spawn").Pipe(duplex=False)
    place = SYSTEMS.index(system)
    process = get_context("spawn").Process(target=_run, args=(place, plan, sender))
    process.start()
    sender.close()
    try:
        figures: dict[str, Any] = receiver.recv()
    except EOFError:
        figures = {"failure": "its process ended early"}
    process.join()
    return figures | {"name": system.name, "version": system.version()}


def _run(place: int, plan: Plan, sender: Connection) -> None:
    end_with_parent(signal.SIGINT)  # so that it takes down what it has set up
    pin(LOAD_CORE)
    gc.disable()  # its pauses would be measured as the server's
    figures: dict[str, Any] = {}
    measuring = measure(SYSTEMS[place], plan, figures)
    try:
        uvloop.run(asyncio.wait_for(measuring, LONGEST_SECONDS))
    except Exception as error:
        traceback.print_exc()
        figures["failure"] = repr(error)[:300]
    sender.send(figures)
