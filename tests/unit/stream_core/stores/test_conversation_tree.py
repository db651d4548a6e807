from __future__ import annotations

from hypothesis import given

from evenflow.stream_core.stores.conversation_tree import ConversationTree, MessageLink
from tests.unit.stream_core.stores.conversation_model import (
    CHOICES,
    last_of_versions,
    ledger_of,
    version_of,
)


@given(CHOICES)
def test_every_version_is_a_path(choices: list[tuple[str, int]]) -> None:
    ledger = ledger_of(choices)
    tree = ConversationTree(entry.link for entry in ledger)
    for end in last_of_versions(ledger):
        until = [entry.message_id for entry in ledger].index(end) + 1
        assert tree.path_through(end) == version_of(ledger[:until])
    for entry in ledger:
        path = tree.path_through(entry.message_id)
        assert entry.message_id in path
        assert path[-1] in last_of_versions(ledger)


@given(CHOICES)
def test_of_the_versions_with_a_message_the_newest_is_read(choices: list[tuple[str, int]]) -> None:
    ledger = ledger_of(choices)
    tree = ConversationTree(entry.link for entry in ledger)
    paths = [tree.path_through(end) for end in last_of_versions(ledger)]
    for entry in ledger:
        with_it = [path for path in paths if entry.message_id in path]
        newest = max(with_it, key=lambda path: int(path[-1][1:]))
        assert tree.path_through(entry.message_id) == newest


def test_all_tries_at_one_message_are_its_versions_whichever_of_them_was_replaced() -> None:
    tree = ConversationTree(
        [
            MessageLink("a", None),
            MessageLink("b", "a"),
            MessageLink("c", "b", replaces="b"),
            MessageLink("d", "c"),
            MessageLink("e", "d", replaces="b"),
            MessageLink("f", "e", replaces="c"),
        ]
    )
    for version in "bcef":
        assert tree.versions_of(version) == ["b", "c", "e", "f"]
    assert (tree.versions_of("a"), tree.versions_of("d")) == (["a"], ["d"])
    assert tree.path_through("c") == ["a", "c", "d"]


def test_what_takes_the_place_of_something_forgotten_begins_the_conversation() -> None:
    tree = ConversationTree([MessageLink("c", "b", replaces="a"), MessageLink("d", "c")])
    assert tree.path_through("c") == ["c", "d"]
    assert (tree.path_through("a"), tree.path_through(None)) == ([], [])
    assert (tree.versions_of("a"), tree.parent_of("c")) == ((), None)


def test_messages_whose_parents_were_forgotten_are_versions_only_of_one_place() -> None:
    """Of `a`, `b`, `c`, … the first two are no longer kept. `d` and `f` continue `a`."""
    tree = ConversationTree(
        [
            MessageLink("c", "b"),
            MessageLink("d", "c", parent_message_id="a"),
            MessageLink("e", "d"),
            MessageLink("f", "e", parent_message_id="a"),
            MessageLink("g", "f", replaces="b"),
            MessageLink("h", "g", replaces="a"),
            MessageLink("i", "h", replaces="g"),
        ]
    )
    versions = {name: list(tree.versions_of(name)) for name in "cdefghi"}
    assert versions == {
        "c": ["c"],
        "d": ["d", "f"],
        "e": ["e"],
        "f": ["d", "f"],
        "g": ["g", "i"],
        "h": ["h"],
        "i": ["g", "i"],
    }
    assert tree.path_through("e") == ["d", "e"]
