"""One scenario a module: `async def measure(plan) -> Outcome`, run in a process of its own on
the load core.
"""

import asyncio
import gc
import importlib
import signal
import traceback
from multiprocessing import get_context
from multiprocessing.connection import Connection

import uvloop

from bench.machine import LOAD_CORE, pin
from bench.plan import Plan
from bench.processes import end_with_parent
from bench.report import Outcome

LONGEST_SECONDS = 1_800.0  # a scenario that hangs is given up after this time


class RunningScenario:
    """A scenario in a fresh process, so that no memory or garbage of another is in its figures."""

    def __init__(self, name: str, plan: Plan) -> None:
        self._name = name
        self._outcome, sender = get_context("spawn").Pipe(duplex=False)
        get_context("spawn").Process(target=_run, args=(name, plan, sender)).start()
        sender.close()

    def outcome(self) -> Outcome:
        """Wait for it; a scenario that could not be measured says why."""
        try:
            outcome: Outcome = self._outcome.recv()
        except EOFError:
            return Outcome(self._name, failure="its process ended early")
        return outcome


def _run(name: str, plan: Plan, sender: Connection) -> None:
    end_with_parent(signal.SIGINT)  # so that it takes down what it has set up
    pin(LOAD_CORE)
    gc.disable()  # its pauses would be measured as the server's
    scenario = importlib.import_module(f"bench.scenarios.{name}")
    try:
        outcome = uvloop.run(asyncio.wait_for(scenario.measure(plan), LONGEST_SECONDS))
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(name, failure=repr(error))
    sender.send(outcome)
