"""Evenflow as people install it: by pip, of a fresh clone, in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evenflow import __version__
from tests.clone import ROOT, clone_sources
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model
from tests.integration.server_process import HandlerProcess, clean_environment, free_port

_PAGE = (ROOT / "docs" / "install.md").read_text("utf-8")
_MODEL = "evenflow serve --model-url http://127.0.0.1:8000/v1 --model-name my-model"
# What a plain installation has not got.
_EXTRAS = ("aiobotocore", "boto3", "botocore", "aws_cdk")


class Environment:
    """An environment of its own, with the dependencies of this one."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self._bin, (packages,) = folder / "bin", folder.glob("lib/python*/site-packages")
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
        for name in _EXTRAS:
            (packages / f"{name}.py").write_text("raise ImportError('not installed')")

    def install(self, *what: str, npm: bool = False) -> None:
        """Install a folder or an sdist."""
        path = os.pathsep.join([str(self._bin), *([os.environ["PATH"]] if npm else [])])
        _run(
            *(sys.executable, "-m", "pip", "--python", self._bin / "python", "install"),
            *("--no-index", "--no-deps", "--no-build-isolation", *what),
            folder=self._bin.parent, PATH=path,
        )  # fmt: skip

    def run(self, *arguments: str) -> str:
        """Run the command `evenflow`. Returns what it prints."""
        return _run(self._bin / "evenflow", *arguments, folder=self._bin.parent)

    @contextmanager
    def serving(self, *options: str) -> Iterator[Served]:
        """Run `evenflow serve` in an empty folder."""
        folder, port = self._bin.parent / f"served-{free_port()}", free_port()
        folder.mkdir()
        server = HandlerProcess(
            folder.with_suffix(".log"), ["serve", "--port", str(port), *options],
            clean_environment({"EVENFLOW_DRAIN_SECONDS": "0"}), "serving http",
            [str(self._bin / "evenflow")], folder,
        ).wait_until_serving()  # fmt: skip
        try:
            yield Served(f"http://127.0.0.1:{port}", server, folder)
        finally:
            server.stop()


class Served:
    """A server that runs."""

    def __init__(self, url: str, process: HandlerProcess, folder: Path) -> None:
        self.folder = folder
        self._url, self._process = url, process

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._process.log

    def get(self, path: str) -> tuple[int, str, str]:
        """A path's status, type and text."""
        try:
            with urllib.request.urlopen(self._url + path, timeout=20) as answer:
                return answer.status, answer.headers.get_content_type(), answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers.get_content_type(), refused.read().decode()

    def answer(self, question: str, model: str) -> str:
        """The text of an answer, by /v1/chat/completions."""
        body = {"model": model, "messages": [{"role": "user", "content": question}]}
        request = urllib.request.Request(
            f"{self._url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: str = json.load(answer)["choices"][0]["message"]["content"]
            return text


def _run(*command: str | Path, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=clean_environment(variables),
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _sdist(folder: Path) -> str:
    """An sdist of a fresh clone, for which npm builds the page with the packages of this one."""
    clone = clone_sources(folder)
    (clone / "web" / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    build = "from setuptools import build_meta; build_meta.build_sdist('built')"
    _run(sys.executable, "-c", build, folder=clone)
    (sdist,) = (clone / "built").glob("*.tar.gz")
    return str(sdist)


def _check_page_and_demo(served: Served) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/evenflow-chat.js", "text/javascript"),
        ("/client.js", "text/javascript"),
    ):
        status, content_type, text = served.get(path)
        assert (status, content_type.replace("application/", "text/")) == (200, kind)
        assert len(text) > 1_000
    assert "docs/" in served.answer("How does it treat slow readers?", "demo")
    assert "with the chat page, model demo" in served.log
    assert (served.folder / ".evenflow" / "evenflow.db").is_file()


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """A model's server that says hello."""
    async with scripted_model() as model:
        model.will(Reply([chunk("Hello from my model."), END]))
        yield model


async def test_an_sdist_of_a_fresh_clone_serves_page_element_and_client_with_any_model(
    tmp_path: Path, model: ScriptedModel
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(_sdist(tmp_path / "clone"))
    with environment.serving() as served:
        _check_page_and_demo(served)

    assert _MODEL in _PAGE
    options = [model.url if it.startswith("http:") else it for it in shlex.split(_MODEL)[2:]]
    with environment.serving(*options) as served:
        answer = await asyncio.to_thread(served.answer, "Hi", "my-model")
        assert (answer, model.requests[0]["model"]) == ("Hello from my model.", "my-model")
        form = f"{__version__} interpreted; Ctrl-C"
        assert f"model my-model at {model.url}, {form}" in served.log


def test_without_npm_it_installs_and_says_that_there_is_no_page(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(str(clone_sources(tmp_path / "clone")))
    with environment.serving("--host", "127.0.0.1") as served:
        for path in ("/", "/client.js"):
            status, _, text = served.get(path)
            assert status == 404
            assert "Install it again where npm and Node.js 20.19 or later are" in text
        assert "this server has no page" in served.log
        assert served.answer("How does it treat slow readers?", "demo")


def test_an_editable_install_serves_the_page_of_its_clone(tmp_path: Path) -> None:
    clone = clone_sources(tmp_path / "clone")
    shutil.copytree(ROOT / "web" / "dist", clone / "web" / "dist")
    environment = Environment(tmp_path / "environment")
    environment.install("--editable", str(clone))
    assert environment.run("--version") == f"evenflow {__version__}\n"
    with environment.serving() as served:
        (clone / "web" / "dist" / "client.js").write_text("changed")
        assert served.get("/client.js")[2] == "changed"


def test_where_mypyc_fails_it_is_built_interpreted_and_says_so(tmp_path: Path) -> None:
    clone, failing = clone_sources(tmp_path / "clone"), tmp_path / "failing"
    (failing / "mypyc").mkdir(parents=True)
    (failing / "mypyc" / "__init__.py").touch()
    (failing / "mypyc" / "build.py").write_text(
        "def mypycify(*_, **__):\n    raise SystemExit(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--build-lib", "built"],
        cwd=clone, env=clean_environment({"PYTHONPATH": str(failing), "CC": sys.executable}),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "this installation runs interpreted" in done.stdout + done.stderr
