"""Who may import whom: the last column of the design's table, and what a pure core must not touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = (
    "stream_core", "stream_aws", "stream_sqlite", "fargate_handler", "functions", "infra", "tests", "bench", "docs",
)  # fmt: skip
MAY_IMPORT = {
    "stream_core": ("stream_core",),
    "stream_aws": ("stream_aws", "stream_core"),
    "stream_sqlite": ("stream_sqlite", "stream_core"),
    "fargate_handler": ("fargate_handler", "stream_core", "stream_aws", "stream_sqlite"),
    "functions": ("functions", "stream_core", "stream_aws"),
    "infra": (
        "infra",
        "stream_core.policy.agents",
        "stream_core.policy.channel.NAME_PATTERN",
        "stream_core.policy.allowed_origins",
        "stream_core.policy.limits",
        "stream_core.policy.memory_bound",
        "stream_core.metrics.metric_catalogue",
        "stream_core.policy.allowed_origins",
        "stream_core.protocol.routes",
    ),
}
# No sockets, no clock of its own, no AWS: time is always an argument.
NOT_IN_THE_CORE = (
    "aiobotocore", "aiohttp", "asyncio", "boto3", "botocore", "concurrent", "grpc", "http", "multiprocessing", "os",
    "picows", "prometheus_client", "pydantic_settings", "queue", "random", "requests", "select", "selectors", "signal",
    "socket", "ssl", "subprocess", "threading", "time", "urllib", "uvloop", "websockets",
)  # fmt: skip


def imported(source: str, package: str) -> Iterator[str]:
    """The modules that a file imports, `from x import y` as `x.y` and relative ones made absolute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def files_of(place: str) -> list[Path]:
    return sorted(path for path in (ROOT / place).rglob("*.py") if "node_modules" not in path.parts)


def imports_of(path: Path) -> list[str]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return list(imported(path.read_text("utf-8"), package))


def is_within(module: str, allowed: str) -> bool:
    return module == allowed or module.startswith(f"{allowed}.")


FILES = [(place, path) for place in MAY_IMPORT for path in files_of(place)]


@pytest.mark.parametrize(("place", "path"), FILES, ids=[str(path.relative_to(ROOT)) for _, path in FILES])
def test_a_file_imports_of_ours_only_what_its_place_may(place: str, path: Path) -> None:
    wrong = [
        module
        for module in imports_of(path)
        if module.split(".")[0] in OURS and not any(is_within(module, allowed) for allowed in MAY_IMPORT[place])
    ]
    assert wrong == []


@pytest.mark.parametrize("path", files_of("stream_core"), ids=lambda path: str(path.name))
def test_the_core_touches_no_socket_no_clock_and_no_aws(path: Path) -> None:
    assert [module for module in imports_of(path) if module.split(".")[0] in NOT_IN_THE_CORE] == []


@pytest.mark.parametrize("path", files_of("stream_core"), ids=lambda path: str(path.name))
def test_the_core_never_asks_what_time_it_is(path: Path) -> None:
    asked = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today", "perf_counter")
    }
    assert asked == set()


@pytest.mark.parametrize("place", ["stream_core", "fargate_handler/gateway"])
def test_no_file_leads_back_to_itself(place: str) -> None:
    """Imports for types alone count too: who needs the other's name can't be changed without it."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files_of(place)}
    leads_to = {
        name: {other for module in imports_of(path) for other in modules if is_within(module, other)}
        for name, path in modules.items()
    }
    assert tuple(TopologicalSorter(leads_to).static_order())


def test_the_places_that_exist_are_looked_at() -> None:
    assert {"stream_core", "fargate_handler"} <= {place for place, _ in FILES}


def test_relative_and_nested_imports_are_seen() -> None:
    source = "from . import a\nfrom ..b import c\ndef f():\n    import d.e\n"
    assert list(imported(source, "x.y")) == ["x.y.a", "x.b.c", "d.e"]
