"""The handler's container image. Docker builds it at deployment; synthesis only gathers the files."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_ecr_assets as ecr_assets
from constructs import Construct

_ROOT = Path(__file__).resolve().parents[2]


def handler_image(scope: Construct, construct_id: str) -> ecr_assets.DockerImageAsset:
    """The image of fargate_handler/Dockerfile; .dockerignore says what it may contain."""
    return ecr_assets.DockerImageAsset(
        scope,
        construct_id,
        directory=str(_ROOT),
        file="fargate_handler/Dockerfile",
        platform=ecr_assets.Platform.LINUX_ARM64,
    )
