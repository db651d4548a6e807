from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.usage_rows import UsageRows, check_sums, check_usage
from tests.chaos.window import Window

_TOKENS = {"rsp_1:1:1": 7, "rsp_2:1:1": 3, "rsp_2:2:1": 5}


def _record(response_id: str, epoch: int = 1, tokens: int = 7) -> dict[str, Any]:
    return {
        "response_id": response_id,
        "state": "completed",
        "epoch": epoch,
        "input_tokens": 1,
        "output_tokens": tokens,
    }


def _misses(*records: dict[str, Any], reserved: int = 0, committed: int = 14) -> list[str]:
    by_response: dict[str, list[Any]] = {}
    for record in records:
        by_response.setdefault(record["response_id"], []).append(record)
    rows = UsageRows([f"reserved#{number}" for number in range(reserved)], by_response, committed)
    window = Window("any", response_ids={"rsp_1", "rsp_2"})
    check_usage(window, rows, _TOKENS)
    check_sums(window, rows)
    return window.misses


def test_one_record_an_answer_with_the_tokens_of_its_last_call_and_nothing_reserved() -> None:
    assert _misses(_record("rsp_1"), _record("rsp_2", 2, 5)) == []


@pytest.mark.parametrize(
    ("records", "others", "miss"),
    [
        ([_record("rsp_1")], {"committed": 8}, "1 answers have no usage record"),
        (
            [_record("rsp_1"), _record("rsp_2", 2, 5), _record("rsp_1")],
            {"committed": 22},
            "1 answers have several usage records",
        ),
        ([_record("rsp_1"), _record("rsp_2", 1, 5)], {}, "1 usage records have other tokens"),
        ([_record("rsp_1"), _record("rsp_2", 2, 5)], {"reserved": 1}, "1 answers are reserved"),
        ([_record("rsp_1"), _record("rsp_2", 2, 5)], {"committed": 15}, "15 tokens are committed"),
    ],
)
def test_each_difference_is_a_miss(
    records: list[dict[str, Any]], others: dict[str, int], miss: str
) -> None:
    (found,) = _misses(*records, **others)
    assert found.startswith(miss)
