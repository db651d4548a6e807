"""The checker finds what it is there for: fed with a flaw, it says so; fed with what the
contract allows, it says nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.answer_check import AnswerCheck, Kind

TEXT = "one two three "
WORDS = ("one ", "two ", "three ")


def delta(index: int, text: str, first: int | None = None) -> dict[str, Any]:
    joined = {} if first is None else {"from": first}
    return {"type": "chat.response.delta", "delta": text, "index": index, **joined}


def start(next_index: int, epoch: int = 1) -> dict[str, Any]:
    return {"type": "chat.response.start", "next_index": next_index, "epoch": epoch}


def restarted(from_index: int, index: int, epoch: int = 1) -> dict[str, Any]:
    return {
        "type": "chat.response.restarted",
        "from_index": from_index,
        "index": index,
        "attempt": 2,
        "epoch": epoch,
    }


def completed(last_index: int, finish_reason: str = "stop", **fields: object) -> dict[str, Any]:
    return {
        "type": "chat.response.completed",
        "last_index": last_index,
        "finish_reason": finish_reason,
        **fields,
    }


def failed(last_index: int, **error: str) -> dict[str, Any]:
    return {"type": "chat.response.error", "last_index": last_index, "error": error}


def poll(
    text: str, next_index: int, status: str = "streaming", **metadata: object
) -> dict[str, Any]:
    about = {
        "next_index": next_index,
        "restarted": None,
        "finish_reason": None,
        "degraded": False,
        "epoch": 1,
    }
    body = {
        "new_text": text,
        "chunk_index": next_index - 1,
        "status": status,
        "metadata": about | metadata,
    }
    return body | ({"full_text": TEXT} if status == "completed" else {})


def check(*frames: dict[str, Any]) -> AnswerCheck:
    checked = AnswerCheck(TEXT)
    for frame in frames:
        checked.take(frame)
    return checked


def kinds(checked: AnswerCheck) -> list[Kind]:
    return [problem.kind for problem in checked.problems]


WHOLE = [delta(index, word) for index, word in enumerate(WORDS)]


@pytest.mark.parametrize(
    "frames",
    [
        [start(0), *WHOLE, completed(2)],
        [delta(1, "one two ", first=0), delta(2, "three "), completed(2)],
        [
            delta(0, "one "),
            restarted(-1, 1),
            delta(2, "one "),
            delta(3, "two "),
            delta(4, "three "),
            completed(4),
        ],
        [
            delta(0, "one "),
            delta(1, "two "),
            restarted(0, 2),
            delta(3, "two "),
            delta(4, "three "),
            completed(4),
        ],
        [delta(0, "one "), restarted(0, 1, epoch=2), delta(2, "two three "), completed(2)],
        [delta(0, "one "), start(0, 2), restarted(-1, -1, epoch=2), *WHOLE, completed(2)],
        [
            *(
                start(0),
                restarted(-1, -1, epoch=3),
                delta(0, "one "),
                restarted(-1, 1, epoch=2),
                restarted(1, 2, epoch=3),
            ),
            *(delta(3, TEXT), completed(3)),
        ],
        [delta(0, "one "), failed(0, code="model_timeout", message="the model took too long")],
    ],
    ids=[
        "plain",
        "joined",
        "in-place restart",
        "restart behind 0",
        "continued",
        "everything anew",
        "the history of owners",
        "error",
    ],
)
def test_what_the_contract_allows_is_no_problem(frames: list[dict[str, Any]]) -> None:
    checked = check(*frames)
    assert (checked.problems, checked.ended) == ([], True)


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([delta(0, "one "), delta(2, "three ")], Kind.GAP),
        ([delta(1, "two ")], Kind.GAP),
        ([delta(0, "one "), delta(2, "two three ", first=2)], Kind.GAP),
        ([delta(0, "one "), restarted(-1, 3)], Kind.GAP),
        ([delta(0, "one "), completed(2)], Kind.GAP),
        ([delta(0, "one "), delta(0, "one ")], Kind.DUPLICATE),
        ([delta(0, "one "), delta(1, "one two ", first=0)], Kind.DUPLICATE),
        ([*WHOLE, completed(1)], Kind.DUPLICATE),
        ([delta(0, "one "), delta(1, "twO ")], Kind.WRONG_BYTES),
        ([delta(0, "two ")], Kind.WRONG_BYTES),
        ([*WHOLE, delta(3, "four ")], Kind.WRONG_BYTES),
        ([delta(0, "one "), delta(1, "two "), completed(1)], Kind.WRONG_BYTES),
        ([delta(0, "one "), restarted(-1, 1), delta(2, "two ")], Kind.WRONG_BYTES),
        ([delta(0, "one "), restarted(0, 1), delta(2, "one ")], Kind.WRONG_BYTES),
        ([delta(1, "one two ", first=0), restarted(0, 2)], Kind.PROTOCOL),
        ([delta(0, "one "), restarted(0, -1)], Kind.PROTOCOL),
        ([delta(0, "one "), start(2)], Kind.PROTOCOL),
        ([*WHOLE, completed(2), delta(3, "four ")], Kind.PROTOCOL),
        ([delta(0, "")], Kind.PROTOCOL),
        ([failed(-1)], Kind.PROTOCOL),
        ([{"type": "chat.response.strange"}], Kind.PROTOCOL),
        ([*WHOLE, completed(2, "cancelled")], Kind.LOST),
        ([*WHOLE, completed(2, degraded=True)], Kind.LOST),
    ],
)
def test_each_flaw_of_the_frames_is_found(frames: list[dict[str, Any]], kind: Kind) -> None:
    assert kinds(check(*frames))[:1] == [kind]


def test_a_flaw_is_told_once_and_not_for_every_frame_that_follows() -> None:
    assert kinds(check(delta(0, "one "), delta(2, "three "), delta(3, "more "))) == [Kind.GAP]


def test_text_is_checked_again_after_a_restart_that_replaces_all_of_it() -> None:
    flawed = [delta(0, "one "), delta(1, "twO "), restarted(-1, 2)]
    assert kinds(check(*flawed, delta(3, "one "))) == [Kind.WRONG_BYTES]
    assert kinds(check(*flawed, delta(3, "two "))) == [Kind.WRONG_BYTES, Kind.WRONG_BYTES]


def polled(*polls: tuple[int, dict[str, Any]]) -> AnswerCheck:
    checked = AnswerCheck(TEXT)
    for asked_from, body in polls:
        checked.polled(asked_from, body)
    return checked


@pytest.mark.parametrize(
    "polls",
    [
        [
            (0, poll("one ", 1)),
            (1, poll("", 1)),
            (1, poll("two three ", 3, "completed", finish_reason="stop")),
        ],
        [
            (0, poll("one ", 1)),
            (
                1,
                poll(
                    "one two three ",
                    5,
                    "completed",
                    finish_reason="stop",
                    restarted={"from_index": -1},
                    epoch=2,
                ),
            ),
        ],
        [(0, poll("", 1, epoch=2)), (1, poll(TEXT, 2, "completed", finish_reason="stop", epoch=2))],
        [
            (
                0,
                poll(
                    "one ",
                    1,
                    "error",
                    error={"code": "model_timeout", "message": "the model took too long"},
                ),
            )
        ],
    ],
    ids=["plain", "replaced", "a marker before any text", "error"],
)
def test_polls_that_the_contract_allows_are_no_problem(
    polls: list[tuple[int, dict[str, Any]]],
) -> None:
    checked = polled(*polls)
    assert (checked.problems, checked.ended) == ([], True)


@pytest.mark.parametrize(
    ("polls", "kind"),
    [
        ([(0, poll("one ", 1)), (1, poll("three ", 2))], Kind.WRONG_BYTES),
        ([(0, poll("one ", 1)), (1, poll("one ", 2))], Kind.WRONG_BYTES),
        ([(0, poll("one ", 1)), (1, poll("", 0))], Kind.DUPLICATE),
        ([(0, poll("one ", 1)), (1, poll("two ", 1))], Kind.PROTOCOL),
        ([(0, poll("one ", 1)), (1, {**poll("two ", 2), "chunk_index": 2})], Kind.PROTOCOL),
        (
            [(0, poll("one two ", 2)), (2, poll("two ", 4, restarted={"from_index": 0}))],
            Kind.PROTOCOL,
        ),
        (
            [(0, poll("one ", 1)), (1, poll("two ", 2, "completed", finish_reason="stop"))],
            Kind.WRONG_BYTES,
        ),
        (
            [(0, {**poll(TEXT, 3, "completed", finish_reason="stop"), "full_text": "one "})],
            Kind.WRONG_BYTES,
        ),
    ],
)
def test_each_flaw_of_polls_is_found(polls: list[tuple[int, dict[str, Any]]], kind: Kind) -> None:
    assert kinds(polled(*polls))[:1] == [kind]
