"""Every command of the README, and of the pages that it sends its readers to, is run as it stands,
with other ports where 8080 might be taken. What takes minutes is run in a short form. What cannot
be run here is looked at, and the reason is said.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e.readme_snippets import BLOCKS, PAGES, at, blocks, commands, page_text
from tests.integration.dynamodb_emulator import threaded_dynamodb_emulator
from tests.integration.server_process import ROOT, ServerProcess, clean_environment, free_port

_SERVING = [command for command in commands() if command.endswith("make run")]
_CALLS = commands("docs/protocol.md")
_TUTORIAL = commands("docs/tutorial.md")
_MOST_PICTURE_BYTES = 2_000_000


@dataclass(frozen=True)
class ShortForm:
    """Less of what a target runs.

    Args:
        full: what the target runs.
        further: the options that make it short.
        says: what it says when all is well.
    """

    full: str
    further: str
    says: str


_SHORT_FORMS = {
    "make bench": ShortForm("-m bench", "--quick --only fallback", "pass"),
}
# They are no part of this test; each is a target that knows what to do.
_REASONS_NOT_TO_RUN = {
    "make test": "this test would wait for itself",
    "make cdk": "`make check` begins with the same targets",
    "make chaos": "`make check` runs its short form",
    "make attack": "`make check` runs its short form",
    "make deploy ENV=dev": "it needs an AWS account; tests/aws deploys to an emulator",
    "make destroy ENV=dev": "likewise",
    'make deploy ENV=prod SET="alarms.page_email=on-call@example.com owner=chat-team"': "likewise; "
    "tests/infrastructure synthesizes with settings",
    "make deploy ENV=dev REGION=eu-west-1 INSTALLATION=acme": "likewise; tests/infrastructure "
    "synthesizes two regions and installations",
    "make preflight ENV=dev": "it needs an AWS account; tests/infrastructure has one that answers",
    "make smoke URL=https://d111.cloudfront.net": "tests/aws calls the emulated deployment",
    "make deployer REPOSITORY=owner/name": "likewise; tests/infrastructure synthesizes it",
    "make run-aws": "tests/aws runs the same system",
}
# It needs an AWS account. tests/infrastructure/test_prices.py gives what it prints to a shell.
_OF_AN_ACCOUNT = (
    'eval "$(aws cloudformation describe-stacks --stack-name evenflow-dev-service --output text '
    "\\\n  --query 'Stacks[0].Outputs[?OutputKey==`TenantsVariables`].OutputValue')\""
)
# tests/infrastructure looks at each, and runs `cdk synth`, the announcement and preflight. There is
# no Docker here; test_container_image.py has the file and the platform that CDK builds with.
_OF_INFRA = [
    command
    for command in commands("docs/aws.md")
    if command.startswith(
        ("cdk ", "aws ", "docker ", ". .venv/bin/activate", "python -m evenflow.infra.")
    )
]
# `make test-clients` runs the example, where FastAPI and pydantic-ai are installed.
_OF_BACKENDS = [
    command
    for command in commands("README.md")
    if command.startswith(("pip install fastapi ", "python -m uvicorn examples."))
]
_TRIES = 5
_TENANTS = [command for command in commands() if "-m evenflow tenants" in command]
_SMOOTHER = ".venv/bin/python -m bench.smoother"
_IN_TEST_OTHER_ORIGINS = {*blocks("html"), *blocks("js"), *commands("web/README.md")}
# Beside commands they hold frames, bodies and calls of the library, which have tests of their own.
_REFERENCES = ("docs/protocol.md", "web/README.md")


def _run(command: list[str], seconds: float = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=True
    )


def _served(command: str, tmp_path: Path) -> int:
    """Run a command that serves; returns the status of its page, and ends it."""
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"{command} HTTP_PORT={port}"],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            give_up_at = time.monotonic() + 50
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                        status: int = answer.status
                        return status
                except OSError:
                    assert time.monotonic() < give_up_at, (tmp_path / "log").read_text()
                    time.sleep(0.1)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


@pytest.mark.parametrize("command", _SERVING)
def test_what_serves_serves_the_page(command: str, tmp_path: Path) -> None:
    assert _served(command, tmp_path) == 200


def _in_pieces(script: str, piece: str) -> str:
    """What the script prints, which has more than ten pieces.

    On a busy machine the answer may have ended when it is first read, in one piece; not each time.
    """
    for _ in range(_TRIES):
        printed = _run(["bash", "-c", script]).stdout
        if printed.count(piece) > 10:
            return printed
    raise AssertionError(f"not in pieces:\n{printed}")


def test_the_three_calls_stream_an_answer(server: ServerProcess) -> None:
    *calls, _ = _CALLS
    assert len(calls) == 3
    script = at(server, "\n".join(["set -euo pipefail", *calls]))
    streamed = _in_pieces(script, "event: chat.response.delta")
    assert "event: chat.response.completed" in streamed


def test_the_tutorial_comes_back_after_the_index_that_it_names(server: ServerProcess) -> None:
    calls = [command for command in _TUTORIAL if command not in _SERVING]
    separator = "echo =========="
    script = "\n".join(["set -euo pipefail", *calls[:-1], separator, calls[-1]])
    printed = _run(["bash", "-c", at(server, script)]).stdout
    whole, resumed = (
        [json.loads(line) for line in re.findall(r"^data: (.+)$", part, re.MULTILINE)]
        for part in printed.split("==========\n")
    )
    assert resumed[0]["from"] == 8
    text, rest = ("".join(it.get("delta", "") for it in part) for part in (whole, resumed))
    assert rest
    assert text.endswith(rest)
    assert resumed[-1] == whole[-1]


def test_openais_api_streams_an_answer(server: ServerProcess) -> None:
    streamed = _in_pieces(at(server, _CALLS[-1]), "chat.completion.chunk")
    assert streamed.rstrip().endswith("data: [DONE]")


def test_code_for_openais_api_prints_an_answer(server: ServerProcess) -> None:
    [code] = blocks("python")
    ran = _run([sys.executable, "-c", at(server, code)])
    assert len(ran.stdout.split()) > 20
    assert not ran.stderr


def test_the_agents_of_the_readme_are_taken(tmp_path: Path) -> None:
    [agents] = blocks("toml")
    file = tmp_path / "agents.toml"
    file.write_text(agents)
    server = ServerProcess(tmp_path / "log", {"EVENFLOW_AGENTS": str(file)}).wait_until_serving()
    try:
        body = b'{"agent": "support"}'
        with urllib.request.urlopen(
            urllib.request.Request(f"{server.http_url}/session", body)
        ) as answer:
            assert answer.status == 201
    finally:
        server.stop()


@pytest.fixture(scope="module")
def tables_of_dev() -> Iterator[dict[str, str]]:
    """Where a deployment of `dev` has its tables, as variables."""
    with threaded_dynamodb_emulator() as dynamodb:
        dynamodb.create_tables("evenflow-dev")
        yield dynamodb.environment
        assert dynamodb.refused == []


@pytest.mark.parametrize("command", sorted(set(_TENANTS)))
def test_a_tenant_is_added(command: str, tables_of_dev: dict[str, str], tmp_path: Path) -> None:
    variables = tables_of_dev | {"EVENFLOW_STORE_PATH": str(tmp_path / "evenflow.db")}
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=clean_environment(variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert re.fullmatch(r"evf_[0-9a-f]{8}_\S{43}\n", ran.stdout)
    assert "tenant acme was added to" in ran.stderr


@pytest.mark.parametrize("command", _SHORT_FORMS)
@pytest.mark.timeout(240)
def test_what_takes_minutes_works_in_its_short_form(command: str) -> None:
    short = _SHORT_FORMS[command]
    assert command in commands()
    assert short.full in _run([*command.split(), "--dry-run"]).stdout
    assert (
        short.says
        in _run([sys.executable, *shlex.split(short.full), *shlex.split(short.further)], 230).stdout
    )


def test_the_smoother_is_drawn(tmp_path: Path) -> None:
    """A short answer, so that it may come evenly by chance: the exit status is for the long
    ones.
    """
    assert _SMOOTHER in commands()
    drawn = tmp_path / "smoother.png"
    short = f"smoother.TOKENS, smoother.PICTURE = 60, Path({str(drawn)!r}); smoother.main()"
    _run([sys.executable, "-c", f"from pathlib import Path; from bench import smoother; {short}"])
    with Image.open(drawn) as picture:
        assert picture.width > 100


@pytest.mark.parametrize("command", _REASONS_NOT_TO_RUN)
def test_the_other_targets_know_what_to_do(command: str) -> None:
    assert command in commands()
    planned = _run([*shlex.split(command), "--dry-run"]).stdout
    assert any(tool in planned for tool in ("python -m", "bin/cdk"))


def test_the_example_of_a_backend_says_itself_how_to_start_it() -> None:
    install, start = _OF_BACKENDS
    module = start.split()[3].partition(":")[0]
    example = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
    assert install in example
    assert start.removesuffix(" --port 8000") in example, "uvicorn's port is 8000 by itself"


def test_no_command_and_no_block_is_left_out() -> None:
    run = {
        *_SERVING,
        *_CALLS,
        *_TUTORIAL,
        *_SHORT_FORMS,
        *_REASONS_NOT_TO_RUN,
        _OF_AN_ACCOUNT,
        *_OF_INFRA,
        *_OF_BACKENDS,
        *_TENANTS,
        _SMOOTHER,
        *_IN_TEST_OTHER_ORIGINS,
    }
    assert set(commands()) - run == set()
    code = {it.code for it in BLOCKS if it.language != "sh" and it.page not in _REFERENCES}
    of_infra = {*blocks("python", "docs/aws.md"), *blocks("json", "docs/aws.md")}
    assert code - _IN_TEST_OTHER_ORIGINS - of_infra - {*blocks("python"), *blocks("toml")} == set()


@pytest.mark.parametrize("page", PAGES)
def test_a_target_that_a_page_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (
        set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)(?=`| [A-Z_]+=|\n```)", page_text(page)))
        <= targets
    )


def test_the_first_picture_moves_and_all_are_small() -> None:
    names = re.findall(r"\]\((docs/images/\S+\.webp)\)", page_text("README.md"))
    assert max((ROOT / name).stat().st_size for name in names) < _MOST_PICTURE_BYTES
    with Image.open(ROOT / names[0]) as picture:
        assert getattr(picture, "n_frames", 1) > 50
