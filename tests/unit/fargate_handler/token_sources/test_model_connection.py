from __future__ import annotations

import json
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.model_connection import caller_headers
from evenflow.fargate_handler.token_sources.port import CallerInfo, ModelRequest


def headers(caller: CallerInfo, attempt: int = 1) -> dict[str, str]:
    return caller_headers(ModelRequest("demo", (), attempt, caller=caller))


def test_who_asks_is_said_as_it_is() -> None:
    told = headers(
        CallerInfo("ses_1", "zoe@example.com", "acme", "m1", {"ticket": "T-7"}), attempt=2
    )
    assert told == {
        "Evenflow-Session": "ses_1",
        "Evenflow-User": "zoe@example.com",
        "Evenflow-Tenant": "acme",
        "Evenflow-Message": "m1",
        "Evenflow-Attempt": "2",
        "Evenflow-Metadata": '{"ticket":"T-7"}',
    }


def test_what_is_not_known_is_not_said() -> None:
    assert headers(CallerInfo()) == {"Evenflow-Attempt": "1"}


@given(st.text(min_size=1), st.text())
def test_no_value_ends_its_line_and_each_can_be_read_again(user: str, value: str) -> None:
    user = user.encode("utf-8", "replace").decode()
    told = headers(CallerInfo(user=user, metadata={"a": value}))
    assert all(" " <= character < "\x7f" for text in told.values() for character in text)
    assert unquote(told["Evenflow-User"]) == user
    assert json.loads(told["Evenflow-Metadata"]) == {"a": value}
