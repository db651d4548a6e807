from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.demo.passages import (
    NO_PASSAGE,
    Passage,
    Passages,
    split,
)

DOCS = Path(__file__).resolve().parents[5] / "docs"
PAGE = """# The title

First paragraph
over two lines, with `code`, **bold**, a [link](https://example.org/x) and [a page](other.md#there).

<!-- a comment
over lines -->

<a id="closing"></a>
## Closing a tab
A paragraph right below its heading.

| a | table |
|---|---|

```
a code block

with a gap
```

- one
  goes on
- two

![an image](x.png)
"""


def real_passages() -> Passages:
    return Passages.read(DOCS)


def test_paragraphs_and_lists_are_passages_and_bring_what_stands_below_them() -> None:
    first = (
        "First paragraph over two lines, with `code`, **bold**, a [link](https://example.org/x) "
        "and a page."
    )
    table, code, items = (
        "| a | table |\n|---|---|",
        "```\na code block\n\nwith a gap\n```",
        "- one goes on\n- two",
    )
    assert split("page", PAGE) == [
        Passage("page", "The title", first),
        Passage(
            "page", "Closing a tab", "A paragraph right below its heading.", (table, code, items)
        ),
        Passage("page", "Closing a tab", items),
    ]


def test_what_stands_below_is_shown_as_far_as_there_is_room() -> None:
    fits, does_not, behind = "- a list", "```\n" + "code " * 200 + "\n```", "- the rest"
    passages = Passages([Passage("p", "Lanterns", "How to light one.", (fits, does_not, behind))])
    assert (
        passages.answer("lanterns").text
        == "How to light one.\n\n- a list\n\n*The demo model found this in docs/p.md, “Lanterns”.*"
    )


def test_behind_a_passage_that_was_cut_nothing_follows() -> None:
    passages = Passages([Passage("p", "Lanterns", "A sentence. " * 60, ("- a list",))])
    assert "- a list" not in passages.answer("lanterns").text


@pytest.mark.parametrize(
    "markdown", ["", "\n\n \n", "# Only a heading", "```\nonly code\n```", "| a |\n|---|"]
)
def test_a_page_without_prose_has_no_passages(markdown: str) -> None:
    assert split("page", markdown) == []


def test_before_the_first_heading_the_page_s_name_stands_for_it() -> None:
    assert split("states", "Some prose.") == [Passage("states", "states", "Some prose.")]


@given(st.text())
def test_no_page_breaks_the_splitting(markdown: str) -> None:
    assert all(passage.page == "p" for passage in split("p", markdown))


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: str(page.stem))
def test_every_real_page_gives_passages_of_prose(page: Path) -> None:
    passages = split(page.stem, page.read_text("utf-8"))
    assert passages
    for passage in passages:
        assert passage.text
        assert not passage.text.startswith(("#", "|", "```", "<!--"))
        assert all(block.count("```") in (0, 2) for block in passage.following_blocks)


def test_the_docs_answer_what_happens_when_a_tab_is_closed() -> None:
    answer = real_passages().answer("What happens when I close the tab?").text
    assert "30 s" in answer
    assert "cancel" in answer
    assert "found this in docs/" in answer


@pytest.mark.parametrize(
    "question",
    [
        "How do I resume a response?",
        "What is the heartbeat?",
        "Which close codes are there?",
        "What may a token do?",
    ],
)
def test_questions_about_the_protocol_find_a_passage_and_name_its_page(question: str) -> None:
    answer = real_passages().answer(question).text
    assert answer != NO_PASSAGE
    assert "found this in docs/" in answer


@pytest.mark.parametrize("question", ["", "the of and", "zyxwvut qwerty", "流れ", "?!", "\x00"])
def test_where_nothing_fits_it_says_so(question: str) -> None:
    assert real_passages().answer(question).text == NO_PASSAGE


def test_of_a_question_of_megabytes_the_end_alone_is_looked_up() -> None:
    passages = Passages([Passage("p", "Lanterns", "Lanterns are lit at night.")])
    noise = " ".join(f"word{number}" for number in range(20_000))
    assert passages.answer(f"{noise} {' ' * 4_096} lanterns").source


@given(st.text())
def test_the_same_question_has_the_same_answer(question: str) -> None:
    passages = Passages(
        [Passage("p", "Readers", "A slow reader lags."), Passage("q", "Leaving", "Closed tabs.")]
    )
    assert passages.answer(question).text == passages.answer(question).text


def test_headings_count_double() -> None:
    passages = Passages(
        [
            Passage("p", "Other drains", "Something on draining here."),
            Passage("p", "Draining", "Something on nodes here."),
        ]
    )
    assert "on nodes" in passages.answer("draining").text


def test_plurals_and_ing_forms_meet() -> None:
    assert (
        Passages([Passage("p", "Readers", "Resuming readers.")]).answer("reader resume").text
        != NO_PASSAGE
    )


def test_a_long_passage_is_cut_at_the_end_of_a_sentence() -> None:
    text = "A sentence about lanterns. " * 60
    answer = Passages([Passage("p", "Lanterns", text)]).answer("lanterns").text.split("\n\n")[0]
    assert len(answer) <= 421
    assert answer.endswith("lanterns.")


def test_a_long_passage_without_any_end_is_cut_all_the_same() -> None:
    answer = (
        Passages([Passage("p", "Lanterns", "lantern" * 200)])
        .answer("lantern")
        .text.split("\n\n")[0]
    )
    assert len(answer) <= 421


def test_without_any_passage_there_is_still_an_answer() -> None:
    assert Passages([]).answer("anything") == (NO_PASSAGE, "")


# -- a person who tries it -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "page", "says"),
    [
        ("What is Evenflow?", "", "no token is lost or shown twice"),
        ("How does it treat slow readers?", "questions", "wait for a slow reader"),
        ("What happens when I close the tab?", "questions", "no cancel"),
        ("How do I use it from my OpenAI code?", "questions", "base URL"),
        ("How do I add authentication for my users?", "questions", "login"),
        ("Can I use it with LangChain?", "questions", "backend"),
        ("Does this work with React?", "questions", "useChat"),
        ("Where is my data stored?", "questions", "evenflow.db"),
        ("How much does it cost?", "questions", "Apache"),
        ("How do I install it?", "questions", "make run"),
        ("Which models can I use?", "questions", "OpenAI"),
        ("How do I deploy to AWS?", "questions", "make deploy"),
        ("How can I connect my own agent with tools?", "questions", "backend"),
        ("What is the heartbeat?", "questions", "25 s"),
    ],
)
def test_what_people_ask_about_it_is_answered_by_what_is_about_that(
    question: str, page: str, says: str
) -> None:
    answer = real_passages().answer(question)
    assert answer.source.startswith(f"docs/{page}"), answer
    assert says in answer.text


@pytest.mark.parametrize(
    "question",
    [
        "Hello!",
        "Hi, how are you?",
        "Who are you?",
        "What can you do?",
        "What is the weather?",
        "What's the weather like in Paris today?",
        "Write a poem about autumn",
        "Tell me a joke",
        "What is the capital of France?",
        "Translate good morning into Spanish",
        "Write a Python function that sorts a list",
        "What time is it?",
        "Summarize the plot of Hamlet",
        "Help me plan a birthday party",
        "Who won the World Cup in 2022?",
        "What is 17 times 23?",
        "Why is the sky blue?",
        "Give me a recipe for pancakes",
        "What's the meaning of life?",
        "Thanks, that's great!",
        "Continue",
        "How long is a token valid?",  # the passages that have its words say something else
        "Is it open in Docker on Kubernetes?",
        "test",
    ],
)
def test_what_it_is_not_about_is_answered_by_what_the_demo_is(question: str) -> None:
    assert real_passages().answer(question) == (NO_PASSAGE, "")


def test_the_demo_says_how_a_model_is_put_behind_it() -> None:
    assert NO_PASSAGE.startswith("I am only a demo")
    assert "\nEVENFLOW_MODEL=openai EVENFLOW_MODEL_URL=" in NO_PASSAGE
    assert NO_PASSAGE.count("```") == 2
