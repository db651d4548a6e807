"""The tags of an environment's resources: ours, and those that an organization asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping

# The characters that all services accept. CloudFront accepts the fewest.
_KEY = re.compile(r"[A-Za-z0-9 _.:/=+@-]{1,128}")
_VALUE = re.compile(r"[A-Za-z0-9 _.:/=+@-]{0,256}")
_MOST = 40  # a resource may have 50; we, CDK and the VPC add some
_RESERVED = "aws:"


def check_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags, if every service takes them.

    Raises:
        ValueError: one doesn't.
    """
    if len(tags) > _MOST:
        raise ValueError(f"must be at most {_MOST} tags: a resource may have 50, ours included")
    for key, value in tags.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise ValueError(
                f"{key!r}: {value!r} is no tag: a key has 1 to 128 and a value up to 256 of "
                "A-Z a-z 0-9, space and _ . : / = + @ -"
            )
        if key.lower().startswith(_RESERVED) or value.lower().startswith(_RESERVED):
            raise ValueError(f"{key!r}: {value!r} begins with {_RESERVED}, which AWS keeps")
    if len({key.lower() for key in tags}) < len(tags):
        raise ValueError("two tags have one name: IAM sees no difference between Owner and owner")
    return dict(tags)


def merge_tags(ours: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    """Merge our tags with others, which replace ours of the same name in any case."""
    replaced = {key.lower() for key in tags}
    return {key: value for key, value in ours.items() if key not in replaced} | dict(tags)
