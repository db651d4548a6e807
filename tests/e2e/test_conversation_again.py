"""The conversation is on the screen again after a reload, live in a second tab, and its last
question can be changed: in a real browser, with a real server.
"""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.e2e.test_element import OpenPage, ask, serious, wait_for
from tests.integration.server_process import ServerProcess

_FIRST, _SECOND = "What is Evenflow?", "What happens when I close the tab?"
_THIRD = "What does it cost?"


def answered(page: Page, question: str) -> str:
    """Asks, and returns the answer when it is whole."""
    ask(page, question)
    wait_for(page, "streaming")
    wait_for(page, "done")
    return last_answer(page)


def last_answer(page: Page) -> str:
    return page.get_by_test_id("answer").last.inner_text()


def second_tab(page: Page) -> Page:
    """A tab with the same session, as a browser's "Duplicate tab" opens it."""
    with page.expect_popup() as opened:
        page.evaluate("void window.open(location.href)")
    return opened.value


def test_a_reload_brings_the_conversation_back(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_page(server.http_url)
    first, second = answered(page, _FIRST), answered(page, _SECOND)
    page.reload()
    expect(page.locator(".question")).to_have_text([_FIRST, _SECOND])
    answers = page.get_by_test_id("answer")
    assert answers.all_inner_texts() == [first, second]
    assert serious(page) == []
    page.get_by_role("button", name="Retry").click()
    wait_for(page, "streaming")
    wait_for(page, "done")
    expect(page.locator(".question")).to_have_text([_FIRST, _SECOND])
    expect(answers).to_have_count(2)


def test_a_second_tab_reads_along(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_page(server.http_url)
    answered(page, _FIRST)
    other = second_tab(page)
    expect(other.locator(".question")).to_have_text([_FIRST])
    ask(page, _SECOND)
    wait_for(other, "streaming")
    expect(page.get_by_test_id("status")).to_have_attribute("data-state", "streaming")
    for tab in (page, other):
        wait_for(tab, "done")
    expect(other.locator(".question")).to_have_text([_FIRST, _SECOND])
    assert last_answer(other) == last_answer(page)
    answered(other, _FIRST)
    wait_for(page, "done")
    expect(page.locator(".question")).to_have_text([_FIRST, _SECOND, _FIRST])


def test_the_last_question_is_changed_in_every_tab(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    answered(page, _FIRST)
    other = second_tab(page)
    expect(other.locator(".question")).to_have_text([_FIRST])
    page.get_by_role("button", name="Edit question").click()
    expect(page.get_by_test_id("question")).to_have_value(_FIRST)
    changed = answered(page, _SECOND)
    for tab in (page, other):
        wait_for(tab, "done")
        expect(tab.locator(".question")).to_have_text([_SECOND])
    assert last_answer(other) == changed
    page.reload()
    expect(page.locator(".question")).to_have_text([_SECOND])


def top_of(locator: Locator) -> float:
    box = locator.bounding_box()
    assert box is not None
    return box["y"]


def test_an_earlier_question_is_edited_and_its_versions_are_switched_in_every_tab(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    first, second = answered(page, _FIRST), answered(page, _SECOND)
    other = second_tab(page)
    expect(other.locator(".question")).to_have_text([_FIRST, _SECOND])
    page.get_by_role("button", name="Edit question").first.click()
    edited = answered(page, _THIRD)
    for tab in (page, other):
        wait_for(tab, "done")
        expect(tab.locator(".question")).to_have_text([_THIRD])
        expect(tab.get_by_role("group", name="Versions")).to_contain_text("2/2")
    page.reload()
    expect(page.locator(".question")).to_have_text([_THIRD])
    assert page.get_by_test_id("answer").all_inner_texts() == [edited]
    page.set_viewport_size({"width": 768, "height": 500})
    switch = page.get_by_role("button", name="Previous version")
    switch.scroll_into_view_if_needed()
    place = top_of(switch)
    switch.click()
    expect(page.locator(".question")).to_have_text([_FIRST, _SECOND])
    assert abs(top_of(switch) - place) < 2, "the reader's place stays"
    assert page.get_by_test_id("answer").all_inner_texts() == [first, second]
    expect(page.get_by_role("button", name="Next version")).to_be_focused()
    assert serious(page) == []
    answered(page, _THIRD)
    wait_for(other, "done")
    expect(other.locator(".question")).to_have_text([_FIRST, _SECOND, _THIRD])


def test_what_is_typed_survives_a_reload(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_page(server.http_url)
    answered(page, _FIRST)
    box = page.get_by_test_id("question")
    box.press_sequentially("Half of a")
    page.reload()
    expect(box).to_have_value("Half of a")
    page.get_by_role("button", name="Edit question").click()
    box.fill(_SECOND)
    page.reload()
    expect(box).to_have_value(_SECOND)
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    box.press("Enter")
    wait_for(page, "done")
    expect(page.locator(".question")).to_have_text([_SECOND])
    page.reload()
    expect(page.locator(".question")).to_have_text([_SECOND])
    expect(box).to_have_value("")
