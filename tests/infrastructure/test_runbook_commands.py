"""The commands of AWS in the runbooks are those that AWS's own models have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenflow.infra.removal.__main__ import IDENTIFIERS
from tests.aws.aws_command_line import OWN_OPTIONS, operation_model, parameter
from tests.aws.runbook import FOLDER, blocks
from tests.infrastructure.cfn_lint import schema

PAGES = sorted(FOLDER.glob("*.md"))
_PLACEHOLDER = re.compile(r"<[^<>|]*(\|[^<>]*)?>")


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command that begins with `aws`, up to the end of its line or brackets."""
    for code in blocks(page):
        text = _PLACEHOLDER.sub("placeholder", code.replace("\\\n", " "))
        for found in re.finditer(r"\baws (?=[a-z0-9-]+ [a-z-]+ )", text):
            line = text[found.end() :].partition("\n")[0]
            words = shlex.shlex(line.replace("$(", " ( "), posix=True, punctuation_chars="();|")
            words.whitespace_split = True
            yield list(_until_punctuation(words))


def _until_punctuation(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        if word[0] in "();|":
            return
        yield word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_every_command_and_option_is_one_that_aws_has(page: Path) -> None:
    for service, command, *words in commands(page):
        if command == "wait":
            continue
        operation = operation_model(service, command)
        for option in (word for word in words if word.startswith("--")):
            if option.removeprefix("--") not in OWN_OPTIONS:
                parameter(operation, option)


def test_commands_are_found_on_the_pages() -> None:
    found = [words[:2] for page in PAGES for words in commands(page)]
    assert len(found) > 40
    assert ["dynamodb", "describe-table"] in found, "in brackets"
    assert ["ecs", "list-tasks"] in found, "in the brackets of another"


@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_what_is_adopted_is_named_as_cloudformation_imports_it(kind: str) -> None:
    (identifier,) = schema(kind)["primaryIdentifier"]
    assert identifier == f"/properties/{IDENTIFIERS[kind]}"
    assert "read" in schema(kind)["handlers"], "CloudFormation imports what it can read"
