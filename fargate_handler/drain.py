"""Sends the clients of a leaving node to other nodes, spread over the time of the drain.

Only the clients. `runtime/leave.py` has the signal; `ClusterMember.drain` hands answers and lease
over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from evenflow.fargate_handler.gateway.connections.connection_registry import (
    ConnectionRegistry,
    Movable,
)
from evenflow.fargate_handler.orchestrator.orchestrator import Orchestrator
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.departures import Departures
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode

GOING_AWAY_REASON = "this node is leaving"

FLUSH_SECONDS = 5.0
"""The end of the drain is for writing and closing. It lasts at least this long."""

# A short drain keeps at most this share of itself for writing.
_FLUSH_SHARE = 0.5
# How often the drain checks whether everything has ended.
_STEP_SECONDS = 0.05
# Clients leave in this first part of the drain. The rest is for those that read to the end.
_DEPARTURES_SHARE = 0.75
# Clients notified per step. Ten thousand notices at once would delay all streams.
_NOTICES_PER_STEP = 100


class Drain:
    """One drain of a node: each client gets a time, at which it reconnects elsewhere."""

    def __init__(
        self,
        limits: Limits,
        registry: ConnectionRegistry,
        orchestrator: Orchestrator,
        metrics: Metrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._registry = registry
        self._orchestrator = orchestrator
        self._metrics = metrics
        self._monotonic = monotonic

    async def move_clients(self) -> float:
        """Wait until all clients and answers have gone, or the time for it is over.

        Returns:
            Until when the node may write what is left, on the monotonic clock.
        """
        began_at, drain_s = self._monotonic(), self._limits.drain_seconds
        move_until = began_at + drain_s - min(FLUSH_SECONDS, drain_s * _FLUSH_SHARE)
        connections, answers = list(self._registry), self._orchestrator.answering
        departures = self._departures(connections, began_at, move_until)
        while self._is_busy() and self._monotonic() < move_until:
            self._notify_next(departures, _NOTICES_PER_STEP)
            self._close_overdue(departures)
            await asyncio.sleep(_STEP_SECONDS)
        self._notify_next(departures)
        self._count_outcomes(len(connections), answers)
        return max(began_at + drain_s, self._monotonic() + FLUSH_SECONDS)

    def _departures(
        self, connections: Sequence[Movable], began_at: float, move_until: float
    ) -> Departures[Movable]:
        clients: list[Movable] = [*connections, *self._registry.streams]
        random.shuffle(clients)
        return Departures(
            clients,
            began_at,
            per_second=self._limits.drain_connections_per_second,
            first_until=began_at + (move_until - began_at) * _DEPARTURES_SHARE,
            until=move_until - _STEP_SECONDS,
        )

    def _is_busy(self) -> bool:
        registry = self._registry
        return bool(self._orchestrator.busy or len(registry) or registry.streams)

    def _notify_next(self, departures: Departures[Movable], most_count: int | None = None) -> None:
        """Send the next clients the moment at which they are to reconnect."""
        now = self._monotonic()
        for departs_at, client in departures.next_departures(most_count):
            client.ask_to_reconnect(GOING_AWAY_REASON, int(max(0.0, departs_at - now) * 1000))

    def _close_overdue(self, departures: Departures[Movable]) -> None:
        """Close connections whose time has passed. Those that read an answer get another one.

        Clients of event streams leave by themselves, or at the end of the answer.
        """
        now, outcomes = self._monotonic(), self._metrics.labelled(catalogue.DRAINED_CONNECTIONS)
        overdue = set(departures.overdue(now))
        for connection in self._registry if overdue else ():
            if connection not in overdue:
                continue
            is_reading, open_before = connection.reading, len(self._registry)
            if not (is_reading and departures.put_back(connection, now)):
                connection.close(CloseCode.GOING_AWAY, GOING_AWAY_REASON)
                if len(self._registry) < open_before:
                    outcomes.count("cut" if is_reading else "closed")

    def _count_outcomes(self, connections: int, answers: int) -> None:
        """Count what became of the connections and answers that were there at the beginning."""
        moved = self._metrics.labelled(catalogue.DRAINED_CONNECTIONS)
        moved.count("cut", times=len(self._registry))
        moved.count("moved", times=max(0, connections - moved.value))
        unfinished = min(answers, self._orchestrator.answering)
        outcomes = self._metrics.labelled(catalogue.DRAINED_ANSWERS)
        outcomes.count("finished", times=answers - unfinished)
        outcomes.count("handed_over", times=unfinished)
