"""Writers that are threads of this process."""

from __future__ import annotations

import pytest

from stream_sqlite import writes
from tests.integration.stores.writer_thread import WriterThread


@pytest.fixture(autouse=True)
def _writers_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "_started", WriterThread)
