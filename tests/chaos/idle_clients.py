"""Clients that are only connected: they hold a WebSocket, and come back when they lose it or are
asked to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from random import Random
from time import monotonic

import orjson
from picows import WSFrame, WSListener, WSMsgType, WSTransport

from tests.chaos.outcome import Backoff, Cause, Outcome
from tests.chaos.session import ChaosSession, Sessions
from tests.chaos.waiting import end
from tests.chaos.websocket_turn import open_websocket


class IdleClient(WSListener):
    """One of them.

    Args:
        arrivals: takes the moment of every connection, and the node's id.
        departures: takes the moment at which it leaves because the server asked for that.
    """

    def __init__(
        self,
        session: ChaosSession,
        random: Random,
        arrivals: list[tuple[float, str]],
        departures: list[float],
    ) -> None:
        self.session = session
        self.node_id = ""
        """Where it is connected; empty while it isn't."""
        self._random = random
        self._arrivals = arrivals
        self._departures = departures
        self._transport: WSTransport
        self._over: asyncio.Future[Outcome]
        self._slot_at: float | None = None
        self._slot: asyncio.TimerHandle | None = None

    async def stay_connected(self) -> None:
        """Until cancelled."""
        backoff = Backoff(self._random)
        while True:
            outcome = await self._connection()
            self.node_id = ""
            await asyncio.sleep(backoff.seconds(outcome))
            if outcome.cause is Cause.ASKED:
                self._departures.append(monotonic())

    async def _connection(self) -> Outcome:
        self._over = asyncio.get_running_loop().create_future()
        self._slot_at = None
        failed = await open_websocket(self.session, "evenflow.v1", self)
        if failed is not None:
            return failed
        self.node_id = self.session.cookie.node_id
        self._arrivals.append((monotonic(), self.node_id))
        try:
            return await self._over
        finally:
            if self._slot is not None:
                self._slot.cancel()
            self._transport.disconnect(False)

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect(False)
        elif frame.msg_type == WSMsgType.TEXT:
            said = orjson.loads(frame.get_payload_as_bytes())
            if said["type"] == "reconnect" and self._slot_at is None:
                wait = said["after_ms"] / 1000
                self._slot_at = monotonic() + wait
                self._slot = asyncio.get_running_loop().call_later(wait, self._finish)

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        self._finish()

    def _finish(self) -> None:
        if self._over.done():
            return
        if self._slot_at is None:
            self._over.set_result(Outcome(Cause.CUT, progressed=True))
        else:
            self._over.set_result(
                Outcome(Cause.ASKED, max(0.0, self._slot_at - monotonic()), progressed=True)
            )


class IdleClients:
    """Many of them."""

    def __init__(self, sessions: Sessions, run: str, seed: int) -> None:
        self.arrivals: list[tuple[float, str]] = []
        self.departures: list[float] = []
        self._sessions = sessions
        self._run = run
        self._seed = seed
        self._clients: dict[IdleClient, asyncio.Task[None]] = {}
        self._opened = 0

    async def add(self, count: int, rate: float, node_id: str = "") -> list[IdleClient]:
        """Connect so many more, `rate` a second; `node_id`: to this node."""
        added = []
        begin = monotonic()
        for number in range(count):
            self._opened += 1
            name = self._opened
            session = self._sessions.open(f"idle_{self._run}{name:012d}")
            session.cookie.node_id = node_id
            random = Random(f"{self._seed}:idle:{name}")
            client = IdleClient(session, random, self.arrivals, self.departures)
            self._clients[client] = asyncio.create_task(client.stay_connected())
            added.append(client)
            await asyncio.sleep(max(0.0, begin + (number + 1) / rate - monotonic()))
        return added

    def by_node(self) -> Counter[str]:
        """How many are connected where; under the empty id, how many are not."""
        return Counter(client.node_id for client in self._clients)

    async def remove(self, clients: Iterable[IdleClient]) -> None:
        """Disconnect these."""
        await end([self._clients.pop(client) for client in tuple(clients)])

    async def stop(self) -> None:
        """Disconnect all."""
        await self.remove(self._clients)
