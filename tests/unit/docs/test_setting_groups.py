"""docs/limits.md has each setting in one group."""

from __future__ import annotations

from collections import Counter

from docs.setting_groups import FIRST, GROUPS, ungrouped
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings

FIELDS = set(HandlerSettings.model_fields)


def test_each_setting_is_in_one_group() -> None:
    assert ungrouped(FIELDS) == set()
    counts = Counter(name for names in GROUPS.values() for name in names)
    assert [name for name, count in counts.items() if count > 1] == []


def test_ten_come_first() -> None:
    assert len(set(FIRST)) == 10
    assert set(FIRST) <= FIELDS
