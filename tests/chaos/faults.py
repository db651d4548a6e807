"""Everything that can be done to the system: each fault strikes, lasts, and is mended again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.chaos.idle_clients import IdleClients
from tests.chaos.load import Load
from tests.chaos.node import DRAIN_KEY, Node
from tests.chaos.plan import Plan
from tests.chaos.system import System
from tests.chaos.window import Window

_BEYOND_THE_DRAIN_SECONDS = 10.0
_DELAY_MS = 300.0
_STORE_DELAY_MS = 200.0
_THROTTLED_SHARE = 0.3
_BROKEN_SHARE = 0.2
_LOOK_SECONDS = 0.1
_LONGER_THAN_THE_LEASE_SECONDS = 4.0
# The last renewal may be a second old.
_SHORTER_THAN_THE_LEASE = 0.4
_ABOUT_THE_LEASE = (0.6, 0.8, 0.9, 1.0, 1.1, 1.3)


@dataclass
class Scene:
    """What a fault acts on.

    Args:
        victim: the node that is struck, where it is one.
        folder: for logs of what a fault starts.
        tell: takes the story of an answer with problems.
    """

    plan: Plan
    system: System
    load: Load
    idle: IdleClients
    window: Window
    victim: Node
    folder: Path
    tell: Callable[[str], None]


Fault = Callable[[Scene], Awaitable[None]]


async def nothing(scene: Scene) -> None:
    """No fault: what everything else is compared with."""
    await asyncio.sleep(2 * scene.plan.hold_seconds)


async def kill(scene: Scene) -> None:
    """SIGKILL; another process starts in its place once the lease has run out."""
    victim = scene.victim
    lost = scene.load.lose_owner(victim.node_id)
    victim.kill()
    scene.window.remarks.append(f"{lost} answers were on the node")
    await asyncio.sleep(scene.plan.lease_seconds + 2)
    await victim.start()


async def terminate(scene: Scene) -> None:
    """SIGTERM, and nothing else: the load balancer sees it by its checks."""
    await _leave(scene, begin=lambda: scene.victim.send(signal.SIGTERM))


async def drain(scene: Scene) -> None:
    """A deployment: deregistered, asked to drain, and SIGTERM when it has."""
    await scene.system.balancer.deregister(scene.victim.name)
    await _leave(scene, begin=lambda: _ask_to_drain(scene))
    await scene.system.balancer.register(scene.victim.name)


async def pause(scene: Scene) -> None:
    """SIGSTOP until its lease is someone else's, then SIGCONT: the stale owner wakes up."""
    lost = scene.load.lose_owner(scene.victim.node_id)
    scene.victim.send(signal.SIGSTOP)
    try:
        await asyncio.sleep(scene.plan.lease_seconds + _LONGER_THAN_THE_LEASE_SECONDS)
    finally:
        scene.victim.send(signal.SIGCONT)
    scene.window.remarks.append(f"{lost} answers were on the node")


async def stutter(scene: Scene) -> None:
    """SIGSTOP for about a lease, again and again: its owner wakes up just before it is lost, or
    just after.
    """
    for share in _ABOUT_THE_LEASE:
        scene.victim.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(scene.plan.lease_seconds * share)
        finally:
            scene.victim.send(signal.SIGCONT)
        await asyncio.sleep(scene.plan.lease_seconds / 2)


async def clients_cut(scene: Scene) -> None:
    """Every connection between the clients and one node is reset, and new ones as well for some
    seconds.
    """
    await _without(scene, [scene.victim.client_link], "refuse")


async def clients_delayed(scene: Scene) -> None:
    """What goes between the clients and one node takes its time."""
    await _delayed(scene, [scene.victim.client_link], _DELAY_MS)


async def clients_silent(scene: Scene) -> None:
    """Nothing passes between the clients and one node, and nobody is told."""
    await _without(scene, [scene.victim.client_link], "silent")


async def store_cut(scene: Scene) -> None:
    """One node is cut from the store for less than its lease: it keeps what it owns."""
    seconds = scene.plan.lease_seconds * _SHORTER_THAN_THE_LEASE
    await _without(scene, [scene.victim.store_link], "refuse", seconds)


async def store_silent(scene: Scene) -> None:
    """One node hears nothing of the store for longer than its lease, while clients reach it: it
    must give up what it owns.
    """
    seconds = scene.plan.lease_seconds + _LONGER_THAN_THE_LEASE_SECONDS
    await _without(scene, [scene.victim.store_link], "silent", seconds)


async def store_delayed(scene: Scene) -> None:
    """The store is slow for one node."""
    await _delayed(scene, [scene.victim.store_link], _STORE_DELAY_MS)


async def store_throttled(scene: Scene) -> None:
    """The store refuses a third of what it is asked."""
    await scene.system.store.throttle(_THROTTLED_SHARE)
    await _until_the_store_is_healed(scene)


async def store_unreachable(scene: Scene) -> None:
    """Nobody reaches the store for longer than a lease: nobody can renew, so nobody is lost."""
    await scene.system.store.reset()
    await _until_the_store_is_healed(scene)


async def peers_cut(scene: Scene) -> None:
    """Nodes don't reach each other: who follows another node's answer must go on by the store."""
    await _without(scene, [node.peer_link for node in scene.system.nodes.values()], "refuse")


async def peers_silent(scene: Scene) -> None:
    """Nodes hear nothing of each other, and nobody is told."""
    await _without(scene, [node.peer_link for node in scene.system.nodes.values()], "silent")


async def model_stalled(scene: Scene) -> None:
    """The model gives no token for some seconds."""
    await scene.system.model.stall(scene.plan.hold_seconds)
    await asyncio.sleep(scene.plan.hold_seconds)


async def model_broken(scene: Scene) -> None:
    """The model's server breaks off in the middle of many answers."""
    await scene.system.model.break_off(_BROKEN_SHARE)
    await asyncio.sleep(scene.plan.hold_seconds)


async def replays(scene: Scene) -> None:
    """Every message that is being answered is sent again, to any node."""
    wrong = await scene.load.replay_all()
    scene.window.misses += [f"a replayed message got another response: {it}" for it in wrong[:5]]


async def storm(scene: Scene) -> None:
    """Every client of one node loses its connection at the same moment; the node stays."""
    await scene.system.network.reset([scene.victim.client_link])
    await asyncio.sleep(scene.plan.hold_seconds)


FAULTS: dict[str, Fault] = {
    "none": nothing,
    "kill": kill,
    "terminate": terminate,
    "drain": drain,
    "pause": pause,
    "stutter": stutter,
    "clients-cut": clients_cut,
    "clients-delayed": clients_delayed,
    "clients-silent": clients_silent,
    "store-cut": store_cut,
    "store-silent": store_silent,
    "store-delayed": store_delayed,
    "store-throttled": store_throttled,
    "store-unreachable": store_unreachable,
    "peers-cut": peers_cut,
    "peers-silent": peers_silent,
    "model-stalled": model_stalled,
    "model-broken": model_broken,
    "replays": replays,
    "storm": storm,
}
SHORT = ("kill", "drain", "pause", "store-unreachable", "stock-clients")


# -- what they are made of -------------------------------------------------------------------------


def _ask_to_drain(scene: Scene) -> None:
    status, _, body = scene.victim.request(
        "POST", "/drain", {"Authorization": f"Bearer {DRAIN_KEY}"}
    )
    if status >= 300:
        scene.window.misses.append(f"POST /drain was answered with {status} {body[:200]!r}")


async def _leave(scene: Scene, begin: Callable[[], None]) -> None:
    """Begin the node's drain, wait for its end, and start another process in its place."""
    plan, victim, window = scene.plan, scene.victim, scene.window
    began = monotonic()
    begin()
    left_within = plan.drain_seconds + _BEYOND_THE_DRAIN_SECONDS
    # Its metrics are asked.
    while not await _has_left(victim) and monotonic() - began < left_within:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_SECONDS)
    if victim.process.poll() is None:
        victim.send(signal.SIGTERM)
    status = await victim.ended(max(1.0, began + left_within - monotonic()))
    window.drain_seconds = monotonic() - began
    if status is None:
        window.misses.append(
            f"node {victim.name} had not left {left_within:g} s after it was asked to"
        )
        victim.kill()
    elif status != 0:
        window.misses.append(f"node {victim.name} left with the exit status {status}")
    await victim.start()


async def _has_left(node: Node) -> bool:
    """Whether it has no connection and no answer any more, or has ended."""
    if node.process.poll() is not None:
        return True
    try:
        metrics = await node.metrics()
    except OSError:
        return False
    return all(
        metrics.value(f"evenflow_{name}") == 0
        for name in ("ws_active_connections", "generations_running")
    )


async def _without(scene: Scene, links: list[str], mode: str, seconds: float | None = None) -> None:
    network = scene.system.network
    await network.set(links, mode)
    if mode == "refuse":
        await network.reset(links)
    try:
        await asyncio.sleep(seconds or scene.plan.hold_seconds)
    finally:
        await network.set(links)


async def _delayed(scene: Scene, links: list[str], delay_ms: float) -> None:
    network = scene.system.network
    await network.set(links, delay_ms=delay_ms)
    try:
        await asyncio.sleep(scene.plan.hold_seconds)
    finally:
        await network.set(links)


async def _until_the_store_is_healed(scene: Scene) -> None:
    try:
        await asyncio.sleep(scene.plan.hold_seconds)
    finally:
        await scene.system.store.heal()
