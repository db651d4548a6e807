"""cfn-lint in the tests' own process: its rules and its schemas are loaded once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cfnlint.config import ConfigMixIn
from cfnlint.decode import decode_str
from cfnlint.rules import Match
from cfnlint.runner import Runner


def findings(template: Mapping[str, Any]) -> list[Match]:
    """What its command line would print about a template of us-east-1."""
    decoded, refused = decode_str(json.dumps(template))
    return refused or list(_runner().validate_template(decoded))


@cache
def _runner() -> Runner:
    return Runner(ConfigMixIn(regions=["us-east-1"]))
