"""The WebSocket side of a task that has a store."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task


class TaskGateway(Gateway):
    """A gateway whose orchestrator has a ledger, and knows other tasks."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.limits)
        self.task = task
        self.clock, self.orchestrator = task.clock, task.orchestrator
        self.context = replace(
            self.context,
            orchestrator=task.orchestrator,
            clock=task.clock.delivery,
            monotonic=task.clock.monotonic,
            wall_time=task.clock.monotonic,
        )
