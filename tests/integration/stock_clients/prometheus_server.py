"""A real Prometheus (Debian's), which scrapes one handler."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.server_process import STATE_SECONDS, free_port

_SCRAPES_A_SECOND = 5
_CONFIGURATION = """\
scrape_configs:
  - job_name: evenflow
    scrape_interval: {interval_ms}ms
    scrape_timeout: {interval_ms}ms
    static_configs:
      - targets: ["{target}"]
"""


class Prometheus:
    """Asks it."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def query(self, query: str) -> list[dict[str, Any]]:
        """The samples of an instant query, as it answers it."""
        async with self._http.get(f"{self._url}/api/v1/query", params={"query": query}) as answer:
            told = await answer.json()
        assert told["status"] == "success", f"{query}: {told.get('error')}"
        assert told["data"]["resultType"] == "vector", query
        found: list[dict[str, Any]] = told["data"]["result"]
        return found

    async def value(self, query: str) -> float:
        """The one value of a query. 0 where there is none."""
        found = await self.query(query)
        assert len(found) <= 1, query
        return float(found[0]["value"][1]) if found else 0.0

    async def wait_for(self, query: str, least: float) -> None:
        """Wait until a query has such a value. While it does not answer yet, it has none."""
        async with asyncio.timeout(STATE_SECONDS):
            while True:
                try:
                    if await self.value(query) >= least:
                        return
                except (aiohttp.ClientError, json.JSONDecodeError):
                    pass
                await asyncio.sleep(1 / _SCRAPES_A_SECOND)


@asynccontextmanager
async def prometheus(
    http: aiohttp.ClientSession, target: str, folder: Path
) -> AsyncIterator[Prometheus]:
    """Run one that scrapes `target` (`host:port`). It fails where there is no such program."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.fail("this test needs Prometheus: apt-get install prometheus")
    configuration, port = folder / "prometheus.yml", free_port()
    configuration.write_text(
        _CONFIGURATION.format(target=target, interval_ms=1000 // _SCRAPES_A_SECOND), "utf-8"
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
        try:
            yield Prometheus(http, f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), STATE_SECONDS)
