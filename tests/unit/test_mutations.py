"""The faults of tests/mutations keep up with the code; whether the tests find them is for
`make mutations`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutations.__main__ import PARALLEL, SUITE
from tests.mutations.importing_tests import ImportingTests
from tests.mutations.mutation import DoesNotApply, Edit, Mutation, all_mutations
from tests.mutations.source_tree import SourceTree
from tests.mutations.trial import CODE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def code() -> SourceTree:
    return SourceTree(ROOT, CODE)


@pytest.fixture(scope="module")
def tests() -> SourceTree:
    return SourceTree(ROOT, SUITE)


@pytest.mark.parametrize("mutation", all_mutations(), ids=lambda mutation: mutation.name)
def test_a_fault_can_be_made_and_names_its_test_and_what_it_breaks(
    mutation: Mutation, code: SourceTree, tests: SourceTree
) -> None:
    assert mutation.breaks.endswith(".")
    assert mutation.changes(code)
    assert len(tests.files(mutation.test)) == 1


_CLOCK = """
class Clock:
    def late(self, now: float) -> bool:
        # After a stall, too.
        if (
            self.is_on
            and now > self.due
        ):
            self.missed += 1
            return True
        return False

    def early(self, now: float) -> bool:
        return self.is_on and now < self.due
"""


@pytest.fixture
def clock(tmp_path: Path) -> SourceTree:
    (tmp_path / "core").mkdir()
    (tmp_path / "core/clock.py").write_text(_CLOCK)
    return SourceTree(tmp_path, ["core"])


def test_an_expression_is_found_however_its_lines_are_broken(clock: SourceTree) -> None:
    edit = Edit("Clock.late", "self.is_on and now > self.due", "now > self.due or self.is_on")

    Mutation("1-clock", "", "", (edit,)).apply(clock)

    changed = (clock.root / "core/clock.py").read_text()
    assert "        if (\n            (now > self.due or self.is_on)\n        ):\n" in changed
    assert "# After a stall, too." in changed


def test_statements_are_found_together_and_take_the_indent_of_the_place(clock: SourceTree) -> None:
    edit = Edit("Clock.late", "self.missed += 1\nreturn True", "if now:\n    return True")

    Mutation("1-clock", "", "", (edit,)).apply(clock)

    changed = (clock.root / "core/clock.py").read_text()
    assert "        ):\n            if now:\n                return True\n        return" in changed


@pytest.mark.parametrize(
    ("place", "old", "says"),
    [
        ("Clock.is_late", "return True", "`in = 'Clock.is_late'` names nothing; it stands in"),
        ("Clock.early", "return True", "does not have this code; it stands in `in = 'core.clock"),
        ("core.clock", "return now", "does not have this code; it stands in nowhere"),
        ("Clock", "self.is_on", "has this code 2 times"),
    ],
)
def test_an_edit_that_lost_its_place_says_where_its_code_stands(
    clock: SourceTree, place: str, old: str, says: str
) -> None:
    fault = Mutation("1-clock", "", "", (Edit(place, old, "pass"),))

    with pytest.raises(DoesNotApply, match=re.escape(says)):
        fault.changes(clock)


def test_the_nearest_tests_of_a_module_are_those_of_its_name_and_then_those_that_import_it(
    tmp_path: Path,
) -> None:
    places = {
        "tests/test_log.py": "from core import log",
        "tests/test_reader.py": "import core.log",
        "tests/test_clock.py": "from core import clock",
        "tests/stores/conftest.py": "from core.store import Store",
        "tests/stores/test_contract.py": "",
        "tests/test_reading.py": "from core.ports.entries import Entry",
        "tests/test_writing.py": "from core.ports import entries",
        "core/handler.py": "import core.node",
        "tests/process.py": "import core.handler",
        "tests/test_serving.py": "from tests.process import serve",
    }
    for name, text in places.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    tests = ImportingTests(tmp_path, ["core"], ["tests"])

    assert list(tests.nearest(["core/log.py"])) == [["tests/test_log.py"], ["tests/test_reader.py"]]
    assert list(tests.nearest(["core/store.py"])) == [[], ["tests/stores/test_contract.py"]]
    assert list(tests.nearest(["core/ports/entries.py"])) == [
        [],
        ["tests/test_reading.py", "tests/test_writing.py"],
    ]
    assert list(tests.nearest(["core/node.py"])) == [[], ["tests/test_serving.py"]]
    assert list(tests.nearest(["core/unknown.py"])) == [[], []]


def test_the_whole_suite_is_what_make_test_runs() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ntest:")[2].splitlines()[1]
    paths = recipe.replace("$(STOCK_CLIENTS)", "tests/integration/stock_clients").partition(")) ")[
        2
    ]

    assert paths == " ".join([*SUITE, *PARALLEL[-1].split("=")])
