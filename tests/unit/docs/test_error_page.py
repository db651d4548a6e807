"""docs/reference/errors.md has a heading for each error code, and names only what exists."""

from __future__ import annotations

import re

from docs.error_page import error_statuses, errors_page
from docs.error_texts import ERROR_TEXTS
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings

TEXTS = {code: text for texts in ERROR_TEXTS.values() for code, text in texts.items()}


def test_each_code_of_the_product_has_a_text_and_no_text_is_left_over() -> None:
    assert set(error_statuses()) == set(TEXTS)


def test_each_code_has_a_heading_of_its_own() -> None:
    page = errors_page("")
    assert re.findall(r"^### (.+)$", page, re.MULTILINE) == list(TEXTS)


def test_a_text_says_what_happened_what_was_kept_and_what_to_do() -> None:
    incomplete = [
        code for code, text in TEXTS.items() if not all(part.endswith(".") for part in text)
    ]
    assert incomplete == []


def test_a_status_is_the_one_of_the_class_that_is_raised() -> None:
    assert error_statuses()["causal_violation"] == {409}
    assert error_statuses()["response_restarted"] == {410, 502}


def test_the_settings_that_it_names_exist() -> None:
    named = set(re.findall(r"EVENFLOW_([A-Z_]+[A-Z])", errors_page("")))
    assert named
    fields = {name.upper() for name in HandlerSettings.model_fields}
    assert {name for name in named if name not in fields and name != "OIDC"} == set()
