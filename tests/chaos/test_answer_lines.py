from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.answer_lines import check_lines, read_lines
from tests.chaos.window import Window

_TOKENS = {"rsp_1:1:1": 7, "rsp_2:1:1": 3, "rsp_2:2:1": 5}


def _line(response_id: str, epoch: int = 1, tokens: int = 7, **other: Any) -> dict[str, Any]:
    return {
        "event": "answer",
        "response_id": response_id,
        "state": "completed",
        "epoch": epoch,
        "attempt": 1,
        "output_tokens": tokens,
        "tokens_counted_by": "model",
    } | other


def _checked(folder: Path, *lines: dict[str, Any], kills: bool = False) -> Window:
    (folder / "node-a-1.log").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    window = Window("any", response_ids={"rsp_1", "rsp_2"})
    check_lines(window, read_lines(folder), _TOKENS, kills=kills)
    return window


def test_one_line_an_answer_with_the_tokens_of_its_last_call(tmp_path: Path) -> None:
    (tmp_path / "node-b-2.log").write_text(
        f'Traceback\n{json.dumps(_line("rsp_2", 2, 5))}\n{{"event":"answer","resp'
    )
    window = _checked(tmp_path, _line("rsp_1"), {"event": "reader"}, _line("rsp_9"))
    assert (window.misses, window.answer_lines) == ([], 2)


@pytest.mark.parametrize(
    ("lines", "miss"),
    [
        ([_line("rsp_1")], "1 answers have no line"),
        ([_line("rsp_1"), _line("rsp_2", 2, 5), _line("rsp_1")], "1 answers have several lines"),
        ([_line("rsp_1", tokens=6), _line("rsp_2", 2, 5)], "1 lines have other tokens"),
        ([_line("rsp_1"), _line("rsp_2", 3, 5)], "1 lines have other tokens"),
        (
            [_line("rsp_1", tokens_counted_by="pieces"), _line("rsp_2", 2, 5)],
            "1 lines have other tokens",
        ),
    ],
)
def test_what_does_not_add_up_fails_the_run(
    tmp_path: Path, lines: list[dict[str, Any]], miss: str
) -> None:
    (found,) = _checked(tmp_path, *lines).misses
    assert found.startswith(miss)


def test_a_killed_task_may_take_a_line_with_it_and_not_many(tmp_path: Path) -> None:
    window = _checked(tmp_path, _line("rsp_1"), kills=True)
    assert window.misses == []
    assert len(window.remarks) == 1
    window.response_ids |= {"rsp_3", "rsp_4"}
    check_lines(window, read_lines(tmp_path), _TOKENS, kills=True)
    assert len(window.misses) == 1


def test_an_answer_that_did_not_complete_has_a_line_whatever_it_counts(tmp_path: Path) -> None:
    window = _checked(tmp_path, _line("rsp_1", state="error", tokens=1), _line("rsp_2", 2, 5))
    assert window.misses == []
