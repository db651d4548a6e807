"""The suite of Durable Streams for servers, as it comes from its registry: its tests of reads."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.durable_streams_writer import running_writer
from tests.conformance.interface_clients import JAVASCRIPT
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import clean_environment
from tests.integration.stock_clients.clients import node

pytestmark = pytest.mark.xdist_group("durable_streams_suite")

_SUITE_SECONDS = 180
# Theirs are five seconds, in which some write hundreds of times: a busy machine needs more.
_TEST_MS = 30_000
# Their reads give up after two seconds without saying so, and a busy machine may stop for as long.
_RETRIES = 2

_ANY = "Property-Based Tests (fast-check) > "
_CLOSED = "Stream Closure > "

READS = {
    "Read Operations": 3,
    "Long-Poll Operations": 2,
    "HTTP Protocol": 3,
    "Browser Security Headers": 7,
    "HEAD Metadata": 3,
    "Offset Validation and Resumability": 20,
    "Protocol Edge Cases": 6,
    "Long-Poll Edge Cases": 5,
    "Caching and ETag": 5,
    "Chunking and Large Payloads": 1,
    "Read-Your-Writes Consistency": 3,
    "SSE Mode": 20,
    f"{_ANY}Byte-Exactness Property": 2,
    f"{_ANY}Operation Sequence Properties": 3,
    f"{_ANY}Immutability Properties": 1,
    f"{_ANY}Offset Validation Properties": 1,
    f"{_ANY}Concurrent Writer Stress Tests": 2,
    f"{_ANY}State Hash Verification": 4,
    f"{_CLOSED}HEAD with Stream Closure": 2,
    f"{_CLOSED}Read Closed Streams (Catch-up)": 3,
    f"{_CLOSED}Long-poll with Stream Closure": 2,
    f"{_CLOSED}SSE with Stream Closure": 4,
    f"{_CLOSED}Edge Cases": 1,
}
"""How many tests of each group pass: all but those that are left out."""


class LeftOut(NamedTuple):
    """Tests that are not run: those whose titles begin so, or the whole group."""

    group: str
    reason: str
    titles: tuple[str, ...] = ()


_WRITES = "Evenflow serves no writes: they are the writer's of this test"
_TYPES = "a stream of Evenflow is JSON; the content type is the writer's of this test"
_MESSAGES = "which messages and lines a body makes is said by the writer of this test"
_BINARY = "messages are JSON: none is binary"
_LASTING = "how long a response is kept is a setting, not what its writer says"
_FORKS = "responses have no forks"

LEFT_OUT = (
    LeftOut("Basic Stream Operations", _WRITES),
    LeftOut("Append Operations", _WRITES),
    LeftOut("Idempotent Producer Operations", _WRITES),
    LeftOut(f"{_ANY}Sequence Ordering Properties", _WRITES),
    LeftOut(f"{_CLOSED}Create with Stream-Closed", _WRITES),
    LeftOut(f"{_CLOSED}Close Operations", _WRITES),
    LeftOut(f"{_CLOSED}Idempotent Producers with Stream Closure", _WRITES),
    LeftOut("Case-Insensitivity", _TYPES),
    LeftOut("Content-Type Validation", _TYPES),
    LeftOut("JSON Mode", _MESSAGES),
    LeftOut("TTL and Expiry Validation", _LASTING),
    LeftOut("TTL and Expiry Edge Cases", _LASTING),
    LeftOut("HEAD Metadata Edge Cases", _LASTING),
    LeftOut("TTL Expiration Behavior", _LASTING),
    LeftOut("Fork - Creation", _FORKS),
    LeftOut("Fork - Reading", _FORKS),
    LeftOut("Fork - Appending", _FORKS),
    LeftOut("Fork - Recursive", _FORKS),
    LeftOut("Fork - Live Modes", _FORKS),
    LeftOut("Fork - Deletion and Lifecycle", _FORKS),
    LeftOut("Fork - TTL and Expiry", _FORKS),
    LeftOut("Fork - JSON Mode", _FORKS),
    LeftOut("Fork - Edge Cases", _FORKS),
    LeftOut("Reserved subscription APIs", "the suite has them only for servers that say so"),
    LeftOut(
        "HTTP Protocol",
        _WRITES,
        (
            "should return correct headers on PUT",
            "should return 200 on idempotent PUT with same config",
            "should return 409 on PUT with different config",
            "should return correct headers on POST",
            "should return 404 on POST to non-existent stream",
            "should return 409 on content-type mismatch",
            "should return 404 on DELETE non-existent stream",
            "should return 204 on successful DELETE",
            "should enforce sequence ordering",
            'should enforce lexicographic seq ordering ("2" then "10" rejects)',
            'should allow lexicographic seq ordering ("09" then "10" succeeds)',
            "should reject duplicate seq values",
        ),
    ),
    LeftOut(
        "Browser Security Headers",
        _WRITES,
        (
            "should include X-Content-Type-Options: nosniff on PUT responses",
            "should include X-Content-Type-Options: nosniff on POST responses",
        ),
    ),
    LeftOut(
        "Protocol Edge Cases",
        _WRITES,
        (
            "should reject empty POST body with 400",
            "should handle PUT with initial body correctly",
            "should enforce case-sensitive seq ordering",
            "should return Location header on 201",
            "should reject missing Content-Type on POST",
            "should accept PUT without Content-Type (use default)",
        ),
    ),
    LeftOut("Chunking and Large Payloads", _WRITES, ("should handle large payload appropriately",)),
    LeftOut("SSE Mode", _MESSAGES, ("should handle newlines in text/plain payloads",)),
    LeftOut(
        "SSE Mode",
        _BINARY,
        (
            "base64 SSE catch-up pairs every data event with a control event",
            "should auto-detect binary streams and return base64 encoded data in SSE mode",
            "should include Stream-SSE-Data-Encoding header for binary streams",
            "should base64 encode data events only, control events remain JSON",
            "should handle empty binary payload with auto-detected base64 encoding",
            "should handle large binary payload with auto-detected base64 encoding",
            "should handle binary data with special bytes using auto-detected base64 encoding",
            "should auto-detect base64 encoding for application/x-protobuf streams",
            "should auto-detect base64 encoding for image/png streams",
            "should handle offset=now with auto-detected base64 encoding for binary streams",
        ),
    ),
    LeftOut(
        f"{_ANY}Concurrent Writer Stress Tests",
        _WRITES,
        (
            "concurrent writers with sequence numbers - server handles gracefully",
            "concurrent writers racing with incrementing seq values",
        ),
    ),
    LeftOut(
        f"{_CLOSED}Edge Cases",
        _WRITES,
        (
            "409-includes-stream-offset",
            "close-nonexistent-stream-404",
            "producer-state-survives-close",
            "close-with-different-body-dedup",
            "empty-post-without-stream-closed-400",
            "delete-closed-stream",
        ),
    ),
)


class Told(NamedTuple):
    """What the suite told of one test."""

    group: str
    title: str
    status: str
    failures: tuple[str, ...]

    def is_of(self, left_out: LeftOut) -> bool:
        """Whether it is one of these."""
        titles = left_out.titles or ("",)
        return self.group == left_out.group and self.title.startswith(titles)


def _not_left_out() -> str:
    """The names that are run, as a regular expression."""
    beginnings = (
        f"{left_out.group.replace(' > ', ' ')} {title}"
        for left_out in LEFT_OUT
        for title in left_out.titles or ("",)
    )
    return f"^(?!{'|'.join(map(re.escape, beginnings))})"


async def _run(serve_module: ServeProcess, report: Path) -> None:
    async with running_writer() as writer:
        server = serve_module(
            model="openai",
            model_url=writer.model_url,
            model_name="written",
            allowed_origins="https://example.com",
            poll_timeout_max_ms=1_000,
            grace_seconds=600,
            batch_window_ms=10,
        )
        writer.evenflow_url = server.http_url
        vitest = await asyncio.create_subprocess_exec(
            *(os.fspath(node()), "node_modules/vitest/vitest.mjs", "run", "durable_streams_suite"),
            *(
                "--reporter=json",
                f"--outputFile={report}",
                f"--testTimeout={_TEST_MS}",
                f"--retry={_RETRIES}",
            ),
            *("--testNamePattern", _not_left_out()),
            cwd=JAVASCRIPT,
            env=clean_environment({"STREAMS_URL": writer.url}),
        )
        try:
            await asyncio.wait_for(vitest.wait(), _SUITE_SECONDS)
        finally:
            if vitest.returncode is None:
                vitest.kill()


@pytest.fixture(scope="module")
def told(serve_module: ServeProcess, tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    """What the suite told of each of its tests. It is run once."""
    report = tmp_path_factory.mktemp("suite") / "report.json"
    asyncio.run(_run(serve_module, report))
    (file,) = json.loads(report.read_text())["testResults"]
    assert file["assertionResults"], file["message"]
    return list(_tests_of(file["assertionResults"]))


def _tests_of(results: list[dict[str, Any]]) -> Iterator[Told]:
    for result in results:
        group = " > ".join(result["ancestorTitles"])
        failures = tuple(result["failureMessages"] or ())
        yield Told(group, result["title"], result["status"], failures)


def test_each_group_of_theirs_is_read_or_left_out(told: list[Told]) -> None:
    whole = {left_out.group for left_out in LEFT_OUT if not left_out.titles}
    assert {test.group for test in told} == whole | READS.keys()
    assert not whole & READS.keys()


def test_what_is_left_out_is_there(told: list[Told]) -> None:
    for left_out in LEFT_OUT:
        found = [test for test in told if test.is_of(left_out)]
        assert len(found) == len(left_out.titles) or (found and not left_out.titles), left_out


def test_each_test_of_reads_passes(told: list[Told]) -> None:
    read = [test for test in told if not any(map(test.is_of, LEFT_OUT))]
    assert [test for test in read if test.status != "passed"] == []
    assert Counter(test.group for test in read) == READS
