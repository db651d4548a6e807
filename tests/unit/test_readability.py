"""How the product reads may get better, and not worse: `python -m tests.readability`."""

from __future__ import annotations

from functools import cache

import pytest

from tests.readability import measures
from tests.readability.__main__ import ROOT

# Each is what was found last. Where a count has fallen, its bound falls too.
MOST = {"people": 98, "so many": 2, "of which": 7}
MOST_BARE_NAMES = 360
MOST_REPEATED_METHODS = 30


@cache
def files() -> list[measures.SourceFile]:
    return measures.source_files(ROOT)


def test_no_folder_leads_back_to_itself() -> None:
    """A folder imports only folders below it, of the order in `docs/architecture.md`."""
    assert measures.folder_circles(measures.imported_files(files())) == []


def test_a_class_name_stands_once() -> None:
    assert measures.duplicate_classes(files()) == {}


def test_names_say_what_the_thing_is() -> None:
    found = measures.bare_names(files())
    assert found.total() <= MOST_BARE_NAMES, found.most_common(20)


@pytest.mark.parametrize("phrase", measures.FORBIDDEN)
def test_docstrings_and_comments_use_the_words_of_the_field(phrase: str) -> None:
    found = measures.forbidden_phrases(files())[phrase]
    assert found.total() <= MOST[phrase], found.most_common(20)


def test_methods_have_an_object() -> None:
    found = measures.repeated_methods(files())
    assert len(found) <= MOST_REPEATED_METHODS, found


def test_each_kind_of_finding_is_found() -> None:
    source = '''
class Line:
    """Whose turn it is, of so many."""

    def take(self, told: int) -> None:
        self._asked = told  # of which nobody knows


class _Line:
    it = 1
'''
    found = [measures.parsed("a/b.py", source)]
    assert measures.bare_names(found).total() == 3
    assert {phrase: each.total() for phrase, each in measures.forbidden_phrases(found).items()} == {
        "people": 2,
        "so many": 1,
        "of which": 1,
    }
    assert measures.duplicate_classes(found) == {"Line": ["a/b.py", "a/b.py"]}
    assert measures.largest_shared_class(found)[:2] == ("_Line", 0)


def test_a_circle_of_folders_is_found() -> None:
    imports = {"p/a/x.py": {"p/b/y.py"}, "p/b/z.py": {"p/a/x.py"}, "p/c/w.py": {"p/a/x.py"}}
    assert measures.folder_circles(imports) == [["p/a", "p/b"]]
