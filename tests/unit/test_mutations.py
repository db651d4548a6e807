"""The patches of tests/mutations keep up with the code; whether the tests find them is for
`make mutations`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutations.__main__ import PARALLEL, SUITE
from tests.mutations.importing_tests import ImportingTests
from tests.mutations.mutation import Mutation, all_mutations

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutation", all_mutations(), ids=lambda mutation: mutation.name)
def test_a_fault_can_still_be_made_and_says_what_it_breaks(mutation: Mutation) -> None:
    assert mutation.breaks.endswith(".")
    assert mutation.touched
    mutation.apply(ROOT, only_check=True)


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


def test_the_table_names_each_fault_and_a_test_that_is_there() -> None:
    table = (ROOT / "tests/mutations/README.md").read_text()
    rows = re.findall(r"^\| (\d+-\S+) \| `(\S+)` \| `(\S+)` \|$", table, re.MULTILINE)

    assert [name for name, _file, _test in rows] == [mutation.name for mutation in all_mutations()]
    gone = [row for row in rows if f"def {row[2]}(" not in (ROOT / "tests" / row[1]).read_text()]
    assert gone == []


def test_the_whole_suite_is_what_make_test_runs() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ntest:")[2].splitlines()[1]
    paths = recipe.replace("$(STOCK_CLIENTS)", "tests/integration/stock_clients").partition(")) ")[
        2
    ]

    assert paths == " ".join([*SUITE, *PARALLEL[-1].split("=")])
