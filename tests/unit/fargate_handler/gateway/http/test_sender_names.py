"""Names that senders give: those of two users are never one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.gateway.http.senders import Sender

_USERS = st.text("ab\n\\", min_size=1, max_size=6)
_NAMES = st.text("ab\n\\", max_size=6)


def _user(name: str) -> Sender:
    return Sender("acme", "127.0.0.1", user=name, identified=True)


@given(_USERS, _NAMES, _USERS, _NAMES)
def test_no_two_users_share_a_name(user: str, name: str, other: str, other_name: str) -> None:
    same = (user, name) == (other, other_name)
    assert (_user(user).own(name) == _user(other).own(other_name)) is same


def test_a_user_whose_name_ends_in_another_s_has_other_chats() -> None:
    assert _user("x\nbob").own("c1") != _user("bob").own("c1\nx")
    digest = _user("x\nbob").own("c1").removeprefix("c1\n").removesuffix("\n")
    assert _user(digest).own("c1") != _user("x\nbob").own("c1")


def test_chats_that_are_on_record_keep_their_names() -> None:
    assert _user("bob").own("c1") == "c1\nbob"
    assert Sender("acme", "127.0.0.1").own("c1") == "c1"
