"""The workflows on GitHub: what they may do, whose code they run, and in which order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.infrastructure.synthesis import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
# A tag can be moved to other code, a commit's hash can't. The comment has the hash's version.
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
USED = re.compile(r"^\s*(?:- )?uses: (.+)$", re.MULTILINE)

Job = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """The workflow. YAML 1.1 takes the key `on` for a boolean."""
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
    return {"on" if key is True else key: value for key, value in workflow.items()}


@pytest.fixture
def jobs() -> dict[str, Job]:
    """The jobs of the deployment."""
    found: dict[str, Job] = read(FOLDER / "test-account.yml")["jobs"]
    return found


def _action(used: str) -> str:
    return used.partition(" ")[0]


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))
class TestEveryWorkflow:
    """Also those that come later."""

    def test_actions_of_others_are_pinned_by_their_commit(self, path: Path) -> None:
        # As text: YAML drops comments.
        used = USED.findall(path.read_text("utf-8"))
        assert set(map(_action, used)) == {
            _action(step["uses"]) for step in steps_of(read(path)) if "uses" in step
        }
        assert [action for action in used if not PINNED.fullmatch(action)] == []

    def test_it_has_no_secret_and_no_key(self, path: Path) -> None:
        text = path.read_text("utf-8")
        for word in ("secrets.", "AKIA", "aws-secret-access-key", "pull_request_target"):
            assert word not in text

    def test_it_may_read_unless_a_job_says_more(self, path: Path) -> None:
        assert read(path)["permissions"] == {"contents": "read"}

    def test_nothing_from_outside_is_put_into_a_shell(self, path: Path) -> None:
        shells = [step["run"] for step in steps_of(read(path)) if "run" in step]
        assert [shell for shell in shells if "${{" in shell] == []

    def test_a_make_target_that_it_calls_is_there(self, path: Path) -> None:
        shells = "\n".join(step["run"] for step in steps_of(read(path)) if "run" in step)
        makefile = (ROOT / "Makefile").read_text("utf-8")
        targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
        assert set(re.findall(r"\bmake ([a-z-]+)", shells)) <= targets

    def test_every_job_ends_by_itself(self, path: Path) -> None:
        assert all(0 < job["timeout-minutes"] <= 60 for job in read(path)["jobs"].values())


def test_a_deployment_is_looked_at_before_called_after_and_taken_away(
    jobs: dict[str, Job],
) -> None:
    def commands(job: Job) -> list[str]:
        return re.findall(r"make \w+", "\n".join(step.get("run", "") for step in job["steps"]))

    assert {name: commands(job) for name, job in jobs.items() if commands(job)} == {
        "preflight": ["make preflight"],
        "deploy": ["make deploy"],
        "smoke": ["make smoke"],
        "destroy": ["make destroy"],
    }
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "image": None,
        "preflight": "image",
        "deploy": "preflight",
        "smoke": "deploy",
        "destroy": ["deploy", "smoke"],
    }
    assert "always()" in jobs["destroy"]["if"]


def test_only_jobs_of_the_protected_environment_are_given_an_identity(
    jobs: dict[str, Job],
) -> None:
    for name, job in jobs.items():
        with_aws = any("configure-aws-credentials" in step.get("uses", "") for step in job["steps"])
        asks = job.get("permissions", {}).get("id-token") == "write"
        assert (asks, with_aws) == ((False, False) if name == "image" else (True, True)), name
        assert job.get("environment") == (None if name == "image" else "test-account")


def test_the_image_is_scanned_and_listed_before_anything_is_deployed(jobs: dict[str, Job]) -> None:
    steps = jobs["image"]["steps"]
    (build,) = (step["run"] for step in steps if "run" in step)
    tag = build.split("--tag ")[1].split()[0]
    scanned = {
        step["uses"].partition("@")[0]: step["with"]
        for step in steps
        if step.get("uses", "").startswith("anchore/")
    }
    assert {name: of["image"] for name, of in scanned.items()} == {
        "anchore/sbom-action": tag,
        "anchore/scan-action": tag,
    }
    assert scanned["anchore/scan-action"]["fail-build"] is True
    assert "fargate_handler/Dockerfile" in build


def test_one_deployment_at_a_time_and_none_is_broken_off() -> None:
    assert read(FOLDER / "test-account.yml")["concurrency"] == {
        "group": "test-account",
        "cancel-in-progress": False,
    }
