"""What reading frames comes to, whichever protocol they are of."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from websockets.exceptions import ConnectionClosed

from tests.integration.answer import Frame

FRAME_SECONDS = 40.0


class FrameReader(ABC):
    """A connection whose frames come one by one."""

    @abstractmethod
    async def receive(self, seconds: float = FRAME_SECONDS) -> Frame:
        """The next frame, which must come within `seconds`."""

    async def silent_for(self, seconds: float) -> list[Frame]:
        """What comes within `seconds`."""
        came = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    came.append(await self.receive(seconds + 10))
        except TimeoutError:
            return came

    async def closed(self, seconds: float = FRAME_SECONDS) -> int:
        """Read until the server closes; returns its code."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.receive(seconds)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006
