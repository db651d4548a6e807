"""A place for large texts in memory, which can be out of reach and forgets when it is told to."""

from __future__ import annotations

from evenflow.stream_core.stores.response_store import StoreUnavailable


class KeptApart:
    """See `evenflow.stream_core.stores.session_store.LargeTexts`."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.reachable = True
        self.read: list[str] = []

    async def put(self, name: str, text: str) -> None:
        """See the port."""
        self._check()
        self.texts[name] = text

    async def get(self, name: str) -> str | None:
        """See the port."""
        self._check()
        self.read.append(name)
        return self.texts.get(name)

    async def delete(self, name: str) -> None:
        """See the port."""
        self._check()
        self.texts.pop(name, None)

    def _check(self) -> None:
        if not self.reachable:
            raise StoreUnavailable("the texts are out of reach")
