"""The handler's image: one that is somewhere already, or built from the sources beside it."""

from __future__ import annotations

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from evenflow.infra.assets.package_data import CHECKOUT
from evenflow.infra.settings.image_reference import EcrImage, ecr_image

_DOCKERFILE = "fargate_handler/Dockerfile"


class ImageNotGivenError(Exception):
    """There is neither an image nor what one is built from."""


def container_image(
    scope: Construct, construct_id: str, reference: str | None
) -> ecs.ContainerImage:
    """The image of a reference, or one that CDK builds of fargate_handler/Dockerfile.

    Tasks get the right to pull from ECR. Other registries must let anybody pull.

    Raises:
        ImageNotGivenError: there is no reference, and this is not a checkout.
    """
    if reference is None:
        return ecs.ContainerImage.from_docker_image_asset(_built(scope, construct_id))
    image = ecr_image(reference)
    if image is None:
        return ecs.ContainerImage.from_registry(reference)
    return ecs.ContainerImage.from_ecr_repository(
        _repository(scope, construct_id, image), image.tag_or_digest
    )


def _built(scope: Construct, construct_id: str) -> ecr_assets.DockerImageAsset:
    """.dockerignore says what may be in it."""
    if not (CHECKOUT / _DOCKERFILE).is_file():
        raise ImageNotGivenError(
            "an installed package can't build the handler's image: push one from a checkout, and "
            'name it: image="<account>.dkr.ecr.<region>.amazonaws.com/<repository>:<tag>"'
        )
    return ecr_assets.DockerImageAsset(
        scope,
        construct_id,
        directory=str(CHECKOUT),
        file=_DOCKERFILE,
        platform=ecr_assets.Platform.LINUX_ARM64,
    )


def _repository(scope: Construct, construct_id: str, image: EcrImage) -> ecr.IRepository:
    return ecr.Repository.from_repository_attributes(
        scope,
        construct_id,
        repository_name=image.repository,
        repository_arn=f"arn:aws:ecr:{image.region}:{image.account}:repository/{image.repository}",
    )
