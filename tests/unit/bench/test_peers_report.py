"""The comparison's table says what was measured, and what was not."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

# It comes with what the benchmarks need, and is loaded only by the tests that need it.
pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="without matplotlib")

_CLEAN = {"gaps": 0, "duplicates": 0, "wrong": 0, "unfinished": 0}


def _step(streams: int, added: float, **figures: Any) -> dict[str, Any]:
    return {
        "streams": streams,
        "reading": streams,
        "tokens_per_second": 1_000,
        "tokens_per_core_second": 2_000,
        "added_ms": {"p50": added / 2, "p95": added},
        "jitter_ms": {"p95": 1.0},
        "memory_bytes": 1_000_000 + 5_000 * streams,
        "server_cpu_percent": 50.0,
        "others_on_server_core_percent": 0.0,
    } | figures


def _figures(*steps: dict[str, Any], **phases: Any) -> dict[str, Any]:
    return {"version": "1", "load": {"steps": list(steps), "failed": 0}} | phases


def report(found: dict[str, Any]) -> str:
    """The comparison's table."""
    from bench.peers import report

    return report.report(found)


def _line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def test_what_is_best_is_said_even_when_it_is_a_peer() -> None:
    found = {
        "direct": _figures(_step(100, 0.1), _step(1_000, 0.1)),
        "evenflow": _figures(_step(100, 9.0), _step(1_000, 90.0)),
        "nginx": _figures(_step(100, 1.0), _step(1_000, 99.0)),
    }
    text = report(found)
    assert _line(text, "added latency p95, 100").endswith("nginx, 1.0 ms")
    assert _line(text, "added latency p95, 1,000").endswith("Evenflow, /v1, 90.0 ms")


def test_who_did_not_serve_all_streams_is_not_best_and_says_so() -> None:
    found = {
        "evenflow": _figures(_step(100, 9.0)),
        "litellm": _figures(_step(100, 1.0, reading=40)),
    }
    text = report(found)
    assert _line(text, "added latency p95, 100").endswith("Evenflow, /v1, 9.0 ms")
    assert "0.5 / 1.0 (only 40 got any)" in text


def test_a_system_that_could_not_be_measured_is_a_line_that_says_why() -> None:
    found = {
        "evenflow": _figures(_step(100, 9.0)),
        "nginx": {"failure": "not installed: apt-get install nginx"},
        "portkey": {"load": {"failure": "it ended"}},
    }
    text = report(found)
    assert "nginx: not measured: not installed: apt-get install nginx" in text
    assert "not measured: it ended" in _line(text, "Portkey")


def test_what_a_cut_cost_is_counted() -> None:
    lossy = {"connections": 9, "content": _CLEAN | {"gaps": 3}, "failed": 0}
    found = {
        "evenflow": _figures(
            _step(100, 9.0), cut={"connections": 9, "content": _CLEAN, "failed": 0}
        ),
        "nchan": _figures(_step(100, 9.0), cut=lossy),
        "portkey": _figures(_step(100, 9.0)),
    }
    text = report(found)
    assert "9: every token once" in _line(text, "Evenflow, /v1")
    assert "9: 3 gaps, 0 duplicates" in _line(text, "nginx with nchan")
    assert "cannot: no resume" in _line(text, "Portkey")
    assert _line(text, "every token once").endswith(": Evenflow, /v1")


def test_a_core_and_a_stream() -> None:
    from bench.peers.report import memory_kb, rate

    full = _step(300, 9.0, server_cpu_percent=99.0, tokens_per_core_second=3_000, reading=200)
    figures = _figures(_step(100, 9.0), full)
    assert rate(figures) == 3_000
    assert memory_kb(figures) == 10.0  # 1,000,000 bytes for the 100 more that were served
    assert "about 2,000 (1,000 at 50 %)" in report({"evenflow": _figures(_step(100, 9.0))})
