"""The ids of the Responses API lead to a channel."""

from __future__ import annotations

import pytest

from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse, parse_item

_PUBLIC = PublicResponse(f"rsp_{7:032x}", f"{9:040x}")


def test_an_id_is_read_again() -> None:
    assert PublicResponse.parse(str(_PUBLIC)) == _PUBLIC
    assert parse_item(_PUBLIC.item("msg", 3)) == (_PUBLIC, 3)


@pytest.mark.parametrize(
    "text", ["", "resp_1", "rsp_1", str(_PUBLIC) + "0", str(_PUBLIC).upper(), f"{_PUBLIC}\n"]
)
def test_what_is_no_id_of_ours_is_none(text: str) -> None:
    assert PublicResponse.parse(text) is None
    assert parse_item(text) is None
