"""What is in the handler's image.

Docker isn't needed: CDK gathers what Docker would be given, by .dockerignore.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow.infra.image_reference import EcrImage, ecr_image
from tests.infrastructure.synthesis import ROOT, Synthesis

_CODE = {"stream_core", "stream_aws", "stream_sqlite", "fargate_handler", "evenflow"}
_ALLOWED = {*_CODE, "docs", "requirements"}


@pytest.fixture(scope="module")
def context(dev: Synthesis) -> Path:
    """The folder that Docker builds from."""
    assets = json.loads((dev.folder / "evenflow-dev-service.assets.json").read_text("utf-8"))
    (image,) = assets["dockerImages"].values()
    assert image["source"]["dockerFile"] == "fargate_handler/Dockerfile"
    assert image["source"]["platform"] == "linux/arm64"
    return dev.folder / str(image["source"]["directory"])


def _files(folder: Path) -> set[str]:
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return files - {".dockerignore"}  # CDK hands it over for Docker to obey; no COPY reaches it


def _instructions() -> list[tuple[str, str]]:
    text = (ROOT / "fargate_handler" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def test_the_image_sees_the_handler_and_nothing_else(context: Path) -> None:
    files = _files(context)
    assert {name.split("/")[0] for name in files} == _ALLOWED
    for name in files:
        folder = name.split("/")[0]
        if folder == "docs":
            assert re.fullmatch(r"docs/[^/]+\.md", name), name
        elif folder == "requirements":
            assert name == "requirements/aws.txt"
        else:
            assert name.endswith(".py") or name == "fargate_handler/Dockerfile", name
        assert "test" not in name.split("/")[-1].split("_")[0], name


def test_it_has_every_module_of_the_handler(context: Path) -> None:
    for folder in _CODE:
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.py")}
        assert modules <= _files(context), folder
    assert any(name.startswith("docs/") for name in _files(context))


def test_what_it_copies_is_there(context: Path) -> None:
    copied = [
        rest.split()[0]
        for word, rest in _instructions()
        if word == "COPY" and not rest.startswith("--from")
    ]
    assert {path.strip("/").split("/")[0] for path in copied} == _ALLOWED
    for path in copied:
        assert (context / path).exists(), path


def test_the_handler_starts_from_what_the_image_holds(context: Path) -> None:
    """Up to its first word: a setting that it refuses."""
    variables = {
        "PATH": os.environ["PATH"],
        "EVENFLOW_HTTP_PORT": "none",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "evenflow.fargate_handler"]
    done = subprocess.run(
        command, cwd=context, env=variables, capture_output=True, text=True, check=False, timeout=30
    )
    assert "EVENFLOW_HTTP_PORT" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode != 0


def test_every_stage_begins_with_one_image_of_ecr_public_that_cannot_change() -> None:
    instructions = _instructions()
    (image,) = (rest for word, rest in instructions if word == "ARG")
    name, _, reference = image.partition("=")
    assert re.fullmatch(
        r"public\.ecr\.aws/docker/library/python:3\.12-slim@sha256:[0-9a-f]{64}", reference
    )
    begun = [rest.split()[0] for word, rest in instructions if word == "FROM"]
    assert begun == [f"${{{name}}}"] * 2


def test_it_runs_as_nobody_and_installs_only_what_is_locked() -> None:
    instructions = _instructions()
    assert [rest for word, rest in instructions if word == "USER"] == ["10001:10001"]
    (install,) = (rest for word, rest in instructions if word == "RUN" and "pip install" in rest)
    assert "--require-hashes" in install
    assert "--only-binary=:all:" in install
    assert [rest for word, rest in instructions if word == "ENTRYPOINT"] == [
        '["python", "-m", "evenflow.fargate_handler"]'
    ]
    assert "--hash=sha256:" in (ROOT / "requirements" / "aws.txt").read_text("utf-8")


_REGISTRY = "111111111111.dkr.ecr.eu-west-1.amazonaws.com"
_DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("reference", "image"),
    [
        (f"{_REGISTRY}/chat/evenflow:1.2", ("chat/evenflow", "1.2")),
        (f"{_REGISTRY}/evenflow@{_DIGEST}", ("evenflow", _DIGEST)),
    ],
)
def test_a_reference_to_ecr_is_understood(reference: str, image: tuple[str, str]) -> None:
    assert ecr_image(reference) == EcrImage("111111111111", "eu-west-1", *image)


@pytest.mark.parametrize(
    "reference",
    [
        "ghcr.io/acme/evenflow:1",
        "public.ecr.aws/acme/evenflow:1",
        f"{_REGISTRY}/evenflow",  # whatever was pushed last
        f"{_REGISTRY}.example.com/evenflow:1",
    ],
)
def test_anything_else_is_of_another_registry(reference: str) -> None:
    assert ecr_image(reference) is None
