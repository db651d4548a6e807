"""What it costs to load a function: a fresh interpreter that has what Lambda and the package
hold, and nothing else.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.server_process import ROOT

# What every function must load, whatever it does: clients of AWS, Powertools, models, and what
# reads tokens and JSON.
_REFERENCE = """
import boto3, jwt, orjson
from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.metrics import EphemeralMetrics
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import BaseModel, TypeAdapter
Logger(), Tracer(), EphemeralMetrics(namespace="reference", service="")
for service in ("dynamodb", "secretsmanager"):
    boto3.client(service)
class Model(BaseModel):
    number: int = 0
TypeAdapter(Model)
"""
# A function may take so many times as long as that; ours take a fifth longer. Both are timed in
# turns, so that a slow machine, or a busy one, slows both.
_LONGEST_RATIO = 1.7
# Each is as quick as it is in its best attempt.
_MOST_ATTEMPTS = 8
# Lambda's run time brings these, with their bytecode. The package has none here, as where no Python
# of Lambda's version could compile it.
_IN_LAMBDA = ("boto3", "botocore", "s3transfer", "urllib3", "python-dateutil", "six")
_SHARED = ("stream_aws", "stream_core")
# Nobody waits for these to begin. They have a client of WebSockets, and one of S3.
_SCHEDULED = {"canary", "usage_file"}
_FUNCTIONS = sorted({path.parent.name for path in ROOT.glob("functions/*/handler.py")} - _SCHEDULED)
_VARIABLES = {
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    # What tells Powertools that it runs in Lambda, so that the tracer is loaded too.
    "LAMBDA_TASK_ROOT": "/var/task",
    "AWS_LAMBDA_FUNCTION_NAME": "measured",
    "POWERTOOLS_SERVICE_NAME": "measured",
    "EVENFLOW_EDGE_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:edge",
    "EVENFLOW_TOKEN_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:tokens",
    "EVENFLOW_TENANT_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:tenants",
    "EVENFLOW_SESSIONS_TABLE": "sessions",
    "EVENFLOW_TENANTS_TABLE": "tenants",
    "EVENFLOW_RESPONSES_TABLE": "responses",
    "EVENFLOW_METRICS_ENVIRONMENT": "dev",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distributions of requirements/functions.txt, those of Lambda's run time,
    and what functions share.
    """
    folder = tmp_path_factory.mktemp("package")
    locked = re.findall(
        r"^([a-z0-9-]+)==", (ROOT / "requirements/functions.txt").read_text(), re.MULTILINE
    )
    assert "pydantic" in locked
    for name in locked:
        _copy_distribution(name, folder, without="__pycache__")
    for name in _IN_LAMBDA:
        _copy_distribution(name, folder)
    for ours in _SHARED:
        _copy_ours(folder, ours)
    (folder / "evenflow" / "functions").mkdir()
    for shared in (ROOT / "functions").glob("*.py"):
        shutil.copy2(shared, folder / "evenflow" / "functions")
    return folder


def _copy_ours(package: Path, place: Path | str) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / place, package / "evenflow" / place, ignore=ignored)


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
    """Seconds of CPU, user and system, for loading is computing and reading files; and the
    modules that are there then.
    """

    cpu: float
    modules: frozenset[str]


def _load(package: Path, code: str) -> _Load:
    measured = (
        "import time; began = time.process_time()\n"
        f"{code}\n"
        "cpu = time.process_time() - began\n"
        "import json, sys; print(json.dumps([cpu, list(sys.modules)]))"
    )
    # -S: no site-packages, so that nothing is found that isn't in the package; -B: no bytecode is
    # left for the next one.
    command = [sys.executable, "-S", "-B", "-c", measured]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package), **_VARIABLES}
    run = subprocess.run(
        command,
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert run.returncode == 0, run.stderr
    cpu, modules = json.loads(run.stdout)
    return _Load(cpu, frozenset(modules))


@pytest.fixture(scope="module")
def references(package: Path) -> list[_Load]:
    """The loads of what all need."""
    return [_load(package, _REFERENCE)]


@pytest.fixture
def function(package: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The code that loads a function, which is in the package now: no function may need another
    one's files.
    """
    own = Path("functions") / request.param
    _copy_ours(package, own)
    yield f"import evenflow.functions.{request.param}.handler"
    shutil.rmtree(package / "evenflow" / own)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("function", _FUNCTIONS, indirect=True)
def test_a_function_loads_no_more_than_what_all_need_and_about_as_quickly(
    package: Path, references: list[_Load], function: str
) -> None:
    loads = [_load(package, function)]
    # Parts of pydantic come with the kinds of fields that a model has.
    ours = {"evenflow", "pydantic", *sys.stdlib_module_names}
    more = loads[0].modules - references[0].modules
    assert not {module for module in more if module.split(".")[0] not in ours}
    while (
        _quickest(loads) >= _LONGEST_RATIO * _quickest(references) and len(loads) < _MOST_ATTEMPTS
    ):
        references.append(_load(package, _REFERENCE))
        loads.append(_load(package, function))
    told = (
        f"{_quickest(loads) * 1000:.0f} ms of CPU, the reference "
        f"{_quickest(references) * 1000:.0f} ms"
    )
    print(f"{function}: {told}")
    assert _quickest(loads) < _LONGEST_RATIO * _quickest(references), told


def _quickest(loads: Sequence[_Load]) -> float:
    return min(load.cpu for load in loads)
