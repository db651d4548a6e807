"""What holds for the tests of every folder."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from evenflow.stream_sqlite.file import prepare
from tests.aws_calls import RECORDING, differences

ROOT = Path(__file__).resolve().parents[1]

# A search of the suite looks at the same few examples in each run, in `make unit` at fewer.
# `make soak` looks at more, and others each time.
settings.register_profile(
    "short",
    max_examples=30,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("short"), max_examples=8)
settings.register_profile(
    "long", settings.get_profile("short"), max_examples=500, derandomize=False
)
settings.load_profile("short")


def pytest_configure(config: pytest.Config) -> None:
    """Begin a list of the calls of AWS that our code makes in this run."""
    if not hasattr(config, "workerinput"):  # processes of xdist have that, and share the list
        file, path = tempfile.mkstemp(prefix="aws-calls-")
        os.close(file)
        os.environ[RECORDING] = path


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if its calls differ from the list."""
    if hasattr(session.config, "workerinput"):
        return
    path, options = Path(os.environ.pop(RECORDING)), session.config.option
    failed_last = getattr(options, "lf", False)  # of a plugin that may be off
    chosen = (options.keyword, options.markexpr, options.deselect, options.collectonly, failed_last)
    is_whole = (
        not any(chosen)
        and not session.testsfailed
        and "tests/integration"
        in {os.path.relpath(argument, ROOT) for argument in session.config.args}
    )
    if found := differences(path, is_whole_suite=is_whole):
        print("\ntests/called.json:", *found, sep="\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    path.unlink()


def pytest_collection_finish() -> None:
    """Look for reference cycles among what the tests make, not among all that was loaded: handlers
    whose clock is turned by hand look every minute of it, and would take a third of a second each
    time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def prepared_file(tmp_path: Path) -> Path:
    """A store's file without rows."""
    path = tmp_path / "evenflow.db"
    prepare(path)
    return path


@pytest.fixture(scope="module")
def no_pause_before_a_retry() -> Iterator[None]:
    """A failed attempt is followed by the next one at once."""
    with pytest.MonkeyPatch.context() as patch:
        # By its name: most tests need no handler.
        patch.setattr(
            "evenflow.fargate_handler.orchestrator.retry_policy._RETRY_PAUSE_SECONDS", (0.0, 0.0)
        )
        yield
