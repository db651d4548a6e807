"""What a reference to an image in ECR says."""

from __future__ import annotations

import re
from typing import NamedTuple

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/"
    r"(?P<repository>[a-z0-9._/-]+)(?::(?P<tag>[\w.-]+)|@(?P<digest>sha256:[0-9a-f]{64}))"
)


class EcrImage(NamedTuple):
    """An image in ECR."""

    account: str
    region: str
    repository: str
    tag_or_digest: str

    @property
    def is_by_digest(self) -> bool:
        """Whether it is always the same image."""
        return self.tag_or_digest.startswith("sha256:")


def ecr_image(reference: str) -> EcrImage | None:
    """The parts of a reference to ECR with a tag or a digest. None for any other reference."""
    found = _ECR.fullmatch(reference)
    if found is None:
        return None
    return EcrImage(
        found["account"], found["region"], found["repository"], found["tag"] or found["digest"]
    )
