"""The drain of a node with thousands of connections, nearly all of them idle: do they arrive
elsewhere at the promised rate?
"""

from __future__ import annotations

from time import monotonic

from tests.chaos.arrival_rate import arrival_rate
from tests.chaos.faults import Scene, drain
from tests.chaos.waiting import until

# As many as a node takes that streams on a full machine. Those that are refused go elsewhere.
_CONNECTS_PER_SECOND = 300.0
_SETTLE_SECONDS = 60.0
_STILL_ANSWERING = 0.05
_DEFAULT_RATE = 250.0
_SHARE_OF_THE_DRAIN = 0.75


async def drain_of_idle_connections(scene: Scene) -> None:
    """Fill one node with idle connections, drain it, and see where and when they come back."""
    load, idle, window, victim = scene.load, scene.idle, scene.window, scene.victim
    wanted, load.wanted = load.wanted, round(scene.plan.answers * _STILL_ANSWERING)
    leaving = victim.node_id
    added = await idle.add(scene.plan.drained, _CONNECTS_PER_SECOND, leaving)
    await until(lambda: all(client.node_id for client in added), _SETTLE_SECONDS)
    on_victim = idle.by_node()[leaving]
    if on_victim < scene.plan.drained:
        window.misses.append(
            f"only {on_victim} of {scene.plan.drained} idle connections are with the node to drain"
        )
    began = monotonic()
    await drain(scene)
    await until(lambda: not idle.by_node()[""] and not idle.by_node()[leaving], _SETTLE_SECONDS)
    arrived = [moment for moment, node_id in idle.arrivals if moment > began and node_id != leaving]
    rate = max(_DEFAULT_RATE, on_victim / (_SHARE_OF_THE_DRAIN * scene.plan.drain_seconds))
    window.arrivals = arrival_rate(arrived, rate)
    window.remarks.append(f"{on_victim:,} idle connections: {window.arrivals}")
    # What the node promises. The rest of an arrival is the load's own process, the balancer's, and
    # the handshake at a node.
    departed = [moment for moment in idle.departures if moment > began]
    window.remarks.append(f"before their handshakes: {arrival_rate(departed, rate)}")
    if nowhere := idle.by_node()[""] + idle.by_node()[leaving]:
        window.misses.append(f"{nowhere} clients are not connected elsewhere after the drain")
    await idle.remove(added)
    load.wanted = wanted
