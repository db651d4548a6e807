"""Who may import whom: the last column of the design's table, and what a pure core must not
touch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.readability.measures import imported

ROOT = Path(__file__).resolve().parents[2]
OURS = ("evenflow", "tests", "bench", "docs")
# The folders of the package `evenflow`, which has a link to each. Nothing imports them by their own
# names: a module would be there twice, and its classes with it.
LINKED = ("fargate_handler", "functions", "infra", "stream_aws", "stream_core", "stream_sqlite")
# Most files say no such name in an import; only the others are parsed.
_PAST_THE_PACKAGE = re.compile(
    rf"^\s*(?:from|import)\b.*(?<!\.)\b(?:{'|'.join(LINKED)})\b", re.MULTILINE
)
_SERVER = (
    "evenflow.fargate_handler", "evenflow.stream_core", "evenflow.stream_aws",
    "evenflow.stream_sqlite",
)  # fmt: skip
MAY_IMPORT = {
    "stream_core": ("evenflow.stream_core",),
    "stream_aws": ("evenflow.stream_aws", "evenflow.stream_core"),
    "stream_sqlite": ("evenflow.stream_sqlite", "evenflow.stream_core"),
    "fargate_handler": (*_SERVER, "evenflow.__version__", "evenflow.is_compiled"),
    # `evenflow doctor` asks what `make smoke` asks, by the same code, and explains what it finds.
    "evenflow": (
        *_SERVER,
        *(f"evenflow.{path.stem}" for path in (ROOT / "evenflow").glob("*.py")),
        "evenflow.__version__",
        "evenflow.doctor",
        "evenflow.functions.canary",
    ),
    "functions": ("evenflow.functions", "evenflow.stream_core", "evenflow.stream_aws"),
    "infra": (
        "evenflow.infra",
        "evenflow.stream_core.filtering.groups",
        "evenflow.stream_core.base.agents",
        "evenflow.stream_core.base.channel.NAME_PATTERN",
        "evenflow.stream_core.auth.allowed_origins",
        "evenflow.stream_core.base.limits",
        "evenflow.stream_core.bounds.memory_bound",
        "evenflow.stream_core.base.model_prices",
        "evenflow.stream_core.auth.oidc_settings",
        "evenflow.stream_core.base.public_models",
        "evenflow.stream_core.metrics.canary_metrics",
        "evenflow.stream_core.metrics.metric_catalogue",
        "evenflow.stream_core.auth.allowed_origins",
        "evenflow.stream_core.http.routes",
        "evenflow.stream_core.protocols.evenflow.session_init.OPEN_TENANT",
    ),
}
# Others in its place run where infra's dependencies are not installed.
ALSO = {"evenflow/cdk.py": ("evenflow.infra",)}
# No sockets, no clock of its own, no AWS: time is always an argument.
NOT_IN_THE_CORE = (
    "aiobotocore", "aiohttp", "asyncio", "boto3", "botocore", "concurrent", "grpc", "http",
    "multiprocessing", "os", "picows", "prometheus_client", "pydantic_settings", "queue", "random",
    "requests", "select", "selectors", "signal", "socket", "ssl", "subprocess", "threading", "time",
    "urllib", "uvloop", "websockets",
)  # fmt: skip


def _paths(place: str) -> Iterator[Path]:
    """Its Python files, but those of others."""
    return (path for path in (ROOT / place).rglob("*.py") if "node_modules" not in path.parts)


@cache
def files_of(place: str) -> dict[str, ast.AST]:
    """By path, each parsed once."""
    paths = sorted(_paths(place))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_bytes()) for path in paths}


@cache
def imports_of(place: str) -> dict[str, list[str]]:
    """The modules that each file below `place` imports, by its path."""
    return {
        path: list(imported(tree, str(Path(path).parent).replace("/", ".")))
        for path, tree in files_of(place).items()
    }


def is_within(module: str, allowed: str) -> bool:
    return module == allowed or module.startswith(f"{allowed}.")


@pytest.mark.parametrize("place", MAY_IMPORT)
def test_a_file_imports_of_ours_only_what_its_place_may(place: str) -> None:
    wrong = [
        (path, module)
        for path, modules in imports_of(place).items()
        for module in modules
        if module.split(".")[0] in OURS
        and not any(
            is_within(module, allowed) for allowed in (*MAY_IMPORT[place], *ALSO.get(path, ()))
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("place", [*MAY_IMPORT, *OURS[1:]])
def test_nothing_is_imported_past_the_package(place: str) -> None:
    suspects = [path for path in _paths(place) if _PAST_THE_PACKAGE.search(path.read_text())]
    wrong = [
        (str(path), module)
        for path in suspects
        for module in imported(ast.parse(path.read_bytes()), "")
        if module.split(".")[0] in LINKED
    ]
    assert wrong == []


def test_the_package_has_a_link_to_each_of_its_folders() -> None:
    links = {path.name: path for path in (ROOT / "evenflow").iterdir() if path.is_symlink()}
    assert sorted(links) == sorted(LINKED)
    assert all(path.samefile(ROOT / name) for name, path in links.items())


def test_the_workers_probe_loads_nothing_of_the_worker() -> None:
    # It runs every half minute beside a busy worker, within five seconds.
    modules = imports_of("fargate_handler")["fargate_handler/inference/probe.py"]
    assert [module for module in modules if module.split(".")[0] in OURS] == []


def test_the_core_touches_no_socket_no_clock_and_no_aws() -> None:
    wrong = [
        (path, module)
        for path, modules in imports_of("stream_core").items()
        for module in modules
        if module.split(".")[0] in NOT_IN_THE_CORE
    ]
    assert wrong == []


def test_the_core_never_asks_what_time_it_is() -> None:
    asked = [
        (path, node.attr)
        for path, tree in files_of("stream_core").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("now", "utcnow", "today", "perf_counter")
    ]
    assert asked == []


@pytest.mark.parametrize("place", ["stream_core", "fargate_handler/gateway"])
def test_no_file_leads_back_to_itself(place: str) -> None:
    """Imports for types alone count too: who needs the other's name can't be changed without it."""
    imports = {
        "evenflow." + path.removesuffix(".py").replace("/", "."): modules
        for path, modules in imports_of(place).items()
    }
    leads_to = {
        name: {other for module in modules for other in imports if is_within(module, other)}
        for name, modules in imports.items()
    }
    assert tuple(TopologicalSorter(leads_to).static_order())


def test_the_places_that_exist_are_looked_at() -> None:
    assert all(files_of(place) for place in MAY_IMPORT)


def test_relative_and_nested_imports_are_seen() -> None:
    source = "from . import a\nfrom ..b import c\ndef f():\n    import d.e\n"
    assert list(imported(ast.parse(source), "x.y")) == ["x.y.a", "x.b.c", "d.e"]
