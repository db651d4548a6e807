from __future__ import annotations

import pytest

from evenflow.stream_core.protocols.evenflow.close_codes import answer_to_close

_LEGAL = {1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)}


def test_a_code_is_answered_with_itself_and_without_its_reason() -> None:
    assert answer_to_close(b"\x03\xe8") == 1000
    assert answer_to_close(b"\x0f\xa0bye") == 4000


def test_no_code_is_answered_with_none() -> None:
    assert answer_to_close(b"") is None


def test_what_may_not_be_sent_is_answered_with_a_protocol_error() -> None:
    answers = {code: answer_to_close(code.to_bytes(2, "big") + b"why") for code in range(65536)}
    assert {code for code, answer in answers.items() if answer == code} == _LEGAL
    assert {answer for code, answer in answers.items() if code not in _LEGAL} == {1002}


@pytest.mark.parametrize("half", [b"\x03", b"\x00"])
def test_half_a_code_is_no_code(half: bytes) -> None:
    assert answer_to_close(half) == 1002
