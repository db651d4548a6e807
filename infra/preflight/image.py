"""Checks that the image exists, or that this machine can build it. It is for ARM64."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.preflight.findings import PreflightFinding, bad, good, unanswered, warning
from evenflow.infra.settings.image_reference import ecr_image

_NAME = "image builder"
_ARM = ("aarch64", "arm64")
_SECONDS = 20
_MISSING = ("ImageNotFoundException", "RepositoryNotFoundException")


def builder_finding() -> PreflightFinding:
    """Whether Docker, or what CDK_DOCKER names, runs and builds for ARM64."""
    builder = os.environ.get("CDK_DOCKER", "docker")
    if shutil.which(builder) is None:
        return bad(
            _NAME, f"{builder} is not installed", "install Docker, or name another in CDK_DOCKER"
        )
    done, _, complaint = _run(builder, "info")
    if not done:
        return bad(_NAME, f"{builder} doesn't run: {complaint}", "start it")
    if platform.machine() in _ARM:
        return good(_NAME, f"{builder}, on ARM64")
    _, platforms, _ = _run(builder, "buildx", "inspect")
    if "linux/arm64" in platforms:
        return good(_NAME, f"{builder}, which emulates ARM64")
    return bad(
        _NAME,
        f"{builder} builds for {platform.machine()} alone",
        f"`{builder} run --privileged --rm tonistiigi/binfmt --install arm64`, or build on ARM64",
    )


def image_finding(account: AwsAccount, reference: str) -> PreflightFinding:
    """Whether the image that the settings name is there."""
    name, image = "image", ecr_image(reference)
    if image is None:
        return warning(
            name, f"{reference} is not in ECR, so it was not checked", "check it yourself"
        )
    kind = "imageDigest" if image.is_by_digest else "imageTag"
    try:
        account.call(
            "ecr",
            "describe_images",
            region=image.region,
            registryId=image.account,
            repositoryName=image.repository,
            imageIds=[{kind: image.tag_or_digest}],
        )
    except AwsCallError as error:
        if error.code not in _MISSING:
            return unanswered(name, error)
        return bad(name, f"{reference}: {error.code}", "push it, or correct the settings' image")
    return good(name, reference)


def _run(*command: str) -> tuple[bool, str, str]:
    """Whether the command succeeded, its output, and its errors in one line."""
    try:
        # The builder that the caller has chosen, as CDK runs it.
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False, "", f"no answer in {_SECONDS} s"
    return done.returncode == 0, done.stdout, " ".join(done.stderr.split())
