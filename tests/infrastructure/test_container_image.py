"""What is in the server's image.

Docker isn't needed: CDK gathers what Docker would be given, by .dockerignore.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from evenflow.infra.settings.image_reference import EcrImage, ecr_image
from tests.infrastructure.synthesis import ROOT, Synthesis
from tests.integration.server_process import HandlerProcess, clean_environment, free_port

_CODE = {"stream_core", "stream_aws", "stream_sqlite", "fargate_handler", "evenflow"}
# setup.py compiles what is hot, and imports a module of infra.
_BUILD = {"setup.py", "infra"}
_ALLOWED = {*_CODE, *_BUILD, "docs", "functions", "requirements", "web"}


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
            assert name in ("requirements/aws.txt", "requirements/compiler.txt")
        elif folder in _BUILD:
            assert re.fullmatch(r"setup\.py|infra/(__init__|assets/\w+)\.py", name), name
        elif folder == "web":
            assert name.startswith("web/dist/"), name
        elif folder == "functions":
            assert re.fullmatch(r"functions/(canary/\w+|__init__)\.py", name), name
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
        source
        for word, rest in _instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert {path.strip("/").split("/")[0] for path in copied} == _ALLOWED
    for path in copied:
        assert (context / path).exists(), path


def test_what_it_copies_serves_the_page_the_element_and_the_client(
    context: Path, tmp_path: Path
) -> None:
    app, port = tmp_path / "app", free_port()
    for word, rest in _instructions():
        if word == "COPY" and not rest.startswith(("--from", "requirements")):
            *sources, target = rest.split()
            for source in sources:
                if (context / source).is_dir():
                    shutil.copytree(context / source, app / target, symlinks=True)
                else:
                    shutil.copy(context / source, app / target)
    # The compiler has its own tests (`make test-compiled`): here, that it has what it imports.
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=app, env=clean_environment({"EVENFLOW_COMPILED": "0"}), check=True, timeout=60,
    )  # fmt: skip
    (entry,) = (json.loads(rest) for word, rest in _instructions() if word == "ENTRYPOINT")
    (said,) = (rest.split() for word, rest in _instructions() if word == "ENV")
    variables = dict(it.split("=", 1) for it in said)
    assert variables["EVENFLOW_HTTP_HOST"] == "0.0.0.0"  # noqa: S104
    assert variables["EVENFLOW_STORE_PATH"] == "/data/evenflow.db"
    here = {"EVENFLOW_HTTP_PORT": str(port), "EVENFLOW_STORE_PATH": str(tmp_path / "evenflow.db"),
            "EVENFLOW_DRAIN_SECONDS": "0", "EVENFLOW_HTTP_HOST": "127.0.0.1"}  # fmt: skip
    server = HandlerProcess(
        tmp_path / "log", entry[1:], clean_environment(here), "serving http", [sys.executable], app
    ).wait_until_serving()
    try:
        for path in ("/", "/evenflow-chat.js", "/client.js"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                assert answer.status == 200
    finally:
        server.stop()


def test_its_command_has_all_it_needs(context: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evenflow", "--help"],
        cwd=context, env=clean_environment({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_every_stage_begins_with_one_image_of_ecr_public_that_cannot_change() -> None:
    instructions = _instructions()
    image, *_ = (rest for word, rest in instructions if word == "ARG")
    name, _, reference = image.partition("=")
    assert re.fullmatch(
        r"public\.ecr\.aws/docker/library/python:3\.12-slim@sha256:[0-9a-f]{64}", reference
    )
    begun = [rest.split()[0] for word, rest in instructions if word == "FROM"]
    assert begun == [f"${{{name}}}"] * 3


def test_it_runs_as_nobody_and_installs_only_what_is_locked() -> None:
    instructions = _instructions()
    assert [rest for word, rest in instructions if word == "USER"] == ["10001:10001"]
    installs = [rest for word, rest in instructions if word == "RUN" and "pip install" in rest]
    for install in installs:
        assert "--require-hashes" in install
        assert "--only-binary=:all:" in install
    assert [rest for word, rest in instructions if word == "ENTRYPOINT"] == [
        '["python", "-m", "evenflow", "serve"]'
    ]
    for lock in ("aws.txt", "compiler.txt"):
        assert "--hash=sha256:" in (ROOT / "requirements" / lock).read_text("utf-8")


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
