"""Divides path patterns among the rules of a listener.

Two quotas of a rule can't be raised: the values of its conditions, and the wildcards in them
(docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

_VALUES_PER_RULE = _WILDCARDS_PER_RULE = 5


def path_rules(patterns: Iterable[str], hosts: Sequence[str] = ()) -> list[list[str]]:
    """The patterns of each rule, without those that another one covers.

    Args:
        hosts: values of each rule's host condition, which count towards the quotas.
    """
    all_patterns = list(patterns)
    rules = list[list[str]]()
    for pattern in all_patterns:
        if any(fnmatchcase(pattern, other) for other in all_patterns if other != pattern):
            continue
        if not rules or not _has_room([*hosts, *rules[-1], pattern]):
            rules.append([])
        rules[-1].append(pattern)
    return rules


def _has_room(values: list[str]) -> bool:
    wildcards = sum(value.count(sign) for value in values for sign in "*?")
    return len(values) <= _VALUES_PER_RULE and wildcards <= _WILDCARDS_PER_RULE
