"""Whether this machine can build the image, which is for ARM64."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

from infra.preflight.findings import Finding, bad, good

_NAME = "image builder"
_ARM = ("aarch64", "arm64")
_SECONDS = 20


def builder_finding() -> Finding:
    """Whether Docker, or what CDK_DOCKER names, runs and builds for ARM64."""
    builder = os.environ.get("CDK_DOCKER", "docker")
    if shutil.which(builder) is None:
        return bad(
            _NAME, f"{builder} is not installed", "install Docker, or name another in CDK_DOCKER"
        )
    done, said = _run(builder, "info")
    if not done:
        return bad(_NAME, f"{builder} doesn't run: {said}", "start it")
    if platform.machine() in _ARM:
        return good(_NAME, f"{builder}, on ARM64")
    _, platforms = _run(builder, "buildx", "inspect")
    if "linux/arm64" in platforms:
        return good(_NAME, f"{builder}, which emulates ARM64")
    return bad(
        _NAME,
        f"{builder} builds for {platform.machine()} alone",
        f"`{builder} run --privileged --rm tonistiigi/binfmt --install arm64`, or build on ARM64",
    )


def _run(*command: str) -> tuple[bool, str]:
    try:
        # The builder that the caller has chosen, as CDK runs it.
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer in {_SECONDS} s"
    said = (done.stdout + done.stderr).strip()
    return done.returncode == 0, said
