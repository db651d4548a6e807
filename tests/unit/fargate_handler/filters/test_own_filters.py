"""Patterns and a filter of the operator's own: read at the start, and refused there."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenflow.fargate_handler.filters.content_filters import (
    FilterUnusable,
    filter_from_python,
    patterns_from_toml,
)
from tests.unit.fargate_handler.filters.filtered_answer import SECRET, FilteredAnswer

_HERE = "tests.unit.fargate_handler.filters.word_filter"


def written(folder: Path, text: str) -> Path:
    """A file with these patterns."""
    path = folder / "filters.toml"
    path.write_text(text)
    return path


async def test_own_patterns_stand_beside_the_known_ones(tmp_path: Path) -> None:
    path = written(tmp_path, "[ticket]\nregex = 'ACME-\\d{4,6}'\nreplacement = '[ticket]'\n")
    answer = FilteredAnswer(options={"own": patterns_from_toml(path)})
    await answer.all_of(["See ACME-", "12345 and ", SECRET])
    assert answer.text == "See [ticket] and [redacted]"


async def test_a_pattern_may_look_at_one_character_as_in_text_without_spaces(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "[id]\nregex = '(?<![0-9A-Z])K-\\d{3}(?![0-9])'\n")
    answer = FilteredAnswer(options={"own": patterns_from_toml(path)})
    await answer.all_of(["番号K", "-1", "23です, AK-123, K-12", "34"])
    assert answer.text == "番号[redacted]です, AK-123, K-1234"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("regex = 'a+'", "the regex of [own] may match more than 2048 characters"),
        ("regex = '(a{1,99}){1,99}'", "may match more than"),
        ("regex = 'a{0,3}'", "matches the empty text"),
        ("regex = 'a(?=bc)'", "looks around its match"),
        ("regex = '^a'", "looks around its match"),
        ("regex = '(x(?<!yy)z){2}'", "looks around its match"),
        ("regex = '(a)\\1'", "refers to a group"),
        ("regex = '(a'", "can't be read"),
        ("replacement = 'a'", "needs a regex"),
        ("regex = 'a'\nreplacment = 'b'", "has an unknown replacment"),
        ("regex = 'a'\nreplacement = 1", "needs a text as its replacement"),
        ("regex = ", "cannot be read"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, table: str, reason: str
) -> None:
    with pytest.raises(FilterUnusable) as refused:
        patterns_from_toml(written(tmp_path, f"[own]\n{table}\n"))
    assert reason in str(refused.value)


async def test_an_own_filter_is_made_for_each_place_of_an_answer() -> None:
    make = filter_from_python(f"{_HERE}:WordFilter")
    answer = FilteredAnswer(options={"python": make})
    await answer.all_of(["Ask Bo", "b or Bobby, not B", "ob"])
    assert answer.text == "Ask [name] or Bobby, not [name]"


@pytest.mark.parametrize(
    "name", ["json", ":x", "no_such_module:Filter", "json:no_such", "json:loads", "builtins:str"]
)
def test_what_is_no_filter_is_refused(name: str) -> None:
    with pytest.raises(FilterUnusable):
        filter_from_python(name)


def test_the_example_of_the_page_is_the_one_that_is_tested() -> None:
    source = Path(__file__).with_name("word_filter.py").read_text("utf-8")
    page = (Path(__file__).parents[4] / "docs" / "filtering.md").read_text("utf-8")
    assert f"```python\n{source}```\n" in page
