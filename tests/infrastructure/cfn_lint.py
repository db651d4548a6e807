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
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER


def findings(template: Mapping[str, Any], region: str = "us-east-1") -> list[Match]:
    """What its command line would print about a template of a region."""
    decoded, refused = decode_str(json.dumps(template))
    return refused or list(_runner(region).validate_template(decoded))


def schema(kind: str, region: str = "us-east-1") -> Mapping[str, Any]:
    """CloudFormation's schema of a type of resource."""
    found: Mapping[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, kind).schema
    return found


@cache
def _runner(region: str) -> Runner:
    return Runner(ConfigMixIn(regions=[region]))
