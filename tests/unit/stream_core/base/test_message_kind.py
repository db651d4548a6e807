from __future__ import annotations

import pytest

from evenflow.stream_core.base.channel import (
    CHAT,
    COMPLETION,
    KEYED_COMPLETION,
    Channel,
    MessageKind,
)

_SESSION = Channel("acme", "demo", "ses_1")


@pytest.mark.parametrize(
    "kind", [CHAT, COMPLETION, KEYED_COMPLETION, COMPLETION.sent_with(_SESSION)]
)
def test_whichever_task_reads_it_finds_the_same_kind(kind: MessageKind) -> None:
    assert MessageKind.from_text(kind.to_text()) == kind


def test_what_has_none_on_record_is_of_a_chat() -> None:
    assert CHAT.to_text() == ""
    assert MessageKind.from_text("") == CHAT


def test_what_a_newer_version_wrote_is_left_out() -> None:
    written = KEYED_COMPLETION.to_text().replace("}", ',"later":1}')
    assert MessageKind.from_text(written) == KEYED_COMPLETION


def test_it_is_under_the_limits_of_the_session_whose_token_it_came_with() -> None:
    assert COMPLETION.sent_with(_SESSION).limited_as == _SESSION
    assert COMPLETION.sent_with(None) == COMPLETION
