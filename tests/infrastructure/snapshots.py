"""Templates as text for review: what changes with every edit of a source file stands still."""

from __future__ import annotations

import json
import re
from typing import Any

_ASSET = re.compile(r"\b[0-9a-f]{64}\b|(?<=[^0-9a-f])[0-9a-f]{32}(?=\.zip)")


def snapshot_text(template: dict[str, Any]) -> str:
    """The template, with asset hashes replaced and keys in order."""
    return _ASSET.sub("<asset>", json.dumps(template, indent=1, sort_keys=True)) + "\n"
