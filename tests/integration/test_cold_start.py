"""What it costs to load a function: a fresh interpreter that has what Lambda and the package hold, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.server_process import ROOT

# Of CPU time, user and system: loading is computing and reading files, and what neighbours of a busy machine take isn't its cost.
_LONGEST_SECONDS = 0.7
# Neighbours slow the CPU too; the function is as quick as it is in the best attempt.
_ATTEMPTS = 8
# Lambda's run time brings these, with their bytecode. The package has none: it may be built by another Python than Lambda's.
_IN_LAMBDA = ("boto3", "botocore", "s3transfer", "urllib3", "python-dateutil", "six")
_SHARED = ("stream_aws", "stream_core")
_FUNCTIONS = sorted(path.parent.name for path in ROOT.glob("functions/*/handler.py"))
_VARIABLES = {
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    # What tells Powertools that it runs in Lambda, so that the tracer is loaded too.
    "LAMBDA_TASK_ROOT": "/var/task",
    "AWS_LAMBDA_FUNCTION_NAME": "measured",
    "POWERTOOLS_SERVICE_NAME": "measured",
    "EVENFLOW_TOKEN_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:tokens",
    "EVENFLOW_TENANT_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:tenants",
    "EVENFLOW_SESSIONS_TABLE": "sessions",
    "EVENFLOW_RESPONSES_TABLE": "responses",
    "EVENFLOW_METRICS_ENVIRONMENT": "dev",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distributions of requirements/functions.txt, those of Lambda's run time, and what functions share."""
    folder = tmp_path_factory.mktemp("package")
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements/functions.txt").read_text(), re.MULTILINE)
    assert "pydantic" in locked
    for name in locked:
        _copy_distribution(name, folder, without="__pycache__")
    for name in _IN_LAMBDA:
        _copy_distribution(name, folder)
    for ours in _SHARED:
        shutil.copytree(ROOT / ours, folder / ours, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "functions").mkdir()
    for shared in (ROOT / "functions").glob("*.py"):
        shutil.copy2(shared, folder / "functions")
    return folder


def _copy_distribution(name: str, folder: Path, without: str = "") -> None:
    files = distribution(name).files or []
    assert files, name
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        source = Path(str(distribution(name).locate_file(top)))
        if source.is_dir():
            shutil.copytree(source, folder / top, ignore=shutil.ignore_patterns(without))
        else:
            shutil.copy2(source, folder / top)


class _Load(NamedTuple):
    """Seconds."""

    cpu: float
    wall: float


def _load(package: Path, function: str) -> _Load:
    code = (
        "from time import perf_counter as wall, process_time as cpu; c, w = cpu(), wall(); "
        f"import functions.{function}.handler; print(cpu() - c, wall() - w)"
    )
    # -S: no site-packages, so that nothing is found that isn't in the package; -B: no bytecode is left for the next one.
    command = [sys.executable, "-S", "-B", "-c", code]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package), **_VARIABLES}
    run = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False, timeout=50)
    assert run.returncode == 0, run.stderr
    cpu, wall = run.stdout.split()
    return _Load(float(cpu), float(wall))


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_a_function_loads_quickly(package: Path, function: str) -> None:
    own = Path("functions") / function
    shutil.copytree(ROOT / own, package / own, ignore=shutil.ignore_patterns("__pycache__"))
    loads: list[_Load] = []
    while len(loads) < _ATTEMPTS and (len(loads) < 3 or min(loads).cpu >= _LONGEST_SECONDS):
        loads.append(_load(package, function))
    shutil.rmtree(package / own)  # no function may need another one's files
    best = min(loads)
    print(f"{function}: {best.cpu * 1000:.0f} ms of CPU in {best.wall * 1000:.0f} ms, the best of {len(loads)}")
    assert best.cpu < _LONGEST_SECONDS
