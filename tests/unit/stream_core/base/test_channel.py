from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.channel import NAME_PATTERN, Channel

NAMES = st.from_regex(NAME_PATTERN, fullmatch=True)


@given(NAMES, NAMES, NAMES, NAMES, NAMES, NAMES)
def test_different_channels_never_look_alike(
    a: str, b: str, c: str, d: str, e: str, f: str
) -> None:
    assert (str(Channel(a, b, c)) == str(Channel(d, e, f))) == ((a, b, c) == (d, e, f))


def test_a_channel_is_written_tenant_agent_session() -> None:
    assert str(Channel("acme", "support", "ses_1")) == "acme:support:ses_1"


def test_a_name_has_no_colon() -> None:
    assert re.fullmatch(NAME_PATTERN, "a:b") is None
