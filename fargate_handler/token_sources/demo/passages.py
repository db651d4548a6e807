"""Finds the passage of the docs that answers a question, by rare words and similar headings."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

_WORD = re.compile(r"[a-z0-9]+")
# A block: code with its blank lines, a comment, a line of HTML, or lines without a blank one.
_BLOCK = re.compile(
    r"^ *```.*?^ *```[^\n]*$|^<!--.*?-->|^<[^\n]*$|(?:^(?! *```|<)[^\n]*\S[^\n]*(?:\n|\Z))+",
    re.MULTILINE | re.DOTALL,
)
_NEVER_SHOWN = ("<", "!")  # comments, anchors and images
# Links to other pages, which don't exist where the answer is shown.
_LOCAL_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
# A chat shows the source's line breaks. Only the next item or row begins a line of its own.
_LINE_BREAK = re.compile(r"\n *(?![-*|]|\d+\. )(?=\S)")
_NO_PROSE = ("|", "```")
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from has have how i if in is it its me my of on "
        "or that the there they this to was we what when where which who why will with you your "
        "tell about am could day don get give good hello help hi hey ll m much many name need "
        "please re s should so some t test testing thank thanks thing time today use used using ve "
        "want would"
    )
)
_ENDING = re.compile(r"(?<=..)(?:ing|ed|es|e|s)$")
_LONGEST_PROSE_CHARACTERS = 420
_LONGEST_ANSWER_CHARACTERS = 900
# A passage answers a question if its heading has a word of it, and the passage has at least this
# share of its words, weighted by their rarity. One page consists of questions and answers.
_LEAST_SHARE = 0.6
# Only this end of a question is searched for: megabytes of words took the event loop a minute.
_SEARCHED_CHARACTERS = 4_096
_QUESTIONS, _OF_QUESTIONS = "questions", 1.5
NO_PASSAGE = """\
I am only a demo, without a language model. I look questions up in Evenflow's documentation, and \
found no answer to this one.

To put a model of your own behind this page, start the server with these variables:

```sh
EVENFLOW_MODEL=openai EVENFLOW_MODEL_URL=https://api.openai.com/v1
EVENFLOW_MODEL_NAME=gpt-5 EVENFLOW_MODEL_API_KEY=sk-…
```

Any server that speaks OpenAI's API will do, also Ollama, vLLM or your own agent. Or ask me about \
Evenflow: what it is, how it treats slow readers, or what happens when a tab is closed."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph or list in Markdown, and the blocks after it under the same heading."""

    page: str
    heading: str
    text: str
    following_blocks: tuple[str, ...] = ()


class PassageAnswer(NamedTuple):
    """An answer from the docs. `source` is the page and the heading. Empty: no passage fits."""

    text: str
    source: str = ""


class Passages:
    """The searchable paragraphs of a folder of Markdown pages."""

    def __init__(self, passages: list[Passage]) -> None:
        self._passages = passages
        self._headings = [frozenset(_terms(p.heading)) for p in passages]
        self._terms = [_terms(p.heading) + _terms(p.text) for p in passages]
        seen_in = Counter(term for terms in self._terms for term in terms)
        self._rarity = {term: math.log(1 + len(passages) / n) for term, n in seen_in.items()}
        self._rarest = math.log(1 + len(passages))

    @classmethod
    @cache
    def read(cls, folder: Path) -> Passages:
        """The paragraphs of the pages `*.md` in `folder`, without sub-folders. Read once."""
        return cls(
            [
                p
                for page in sorted(folder.glob("*.md"))
                if page.stem != "README"  # their index
                for p in split(page.stem, page.read_text("utf-8"))
            ]
        )

    def answer(self, question: str) -> PassageAnswer:
        """The best passage in Markdown, with its source. If none fits, a text about this model."""
        question_terms = frozenset(_terms(question[-_SEARCHED_CHARACTERS:]))
        least = _LEAST_SHARE * sum(self._rarity.get(term, self._rarest) for term in question_terms)
        scores = [
            self._score(question_terms, least, number) for number in range(len(self._passages))
        ]
        best = max(scores, default=0.0)
        if best == 0.0:
            return PassageAnswer(NO_PASSAGE)
        passage = self._passages[scores.index(best)]
        source = f"docs/{passage.page}.md, “{passage.heading}”"
        credit = f"*The demo model found this in {source}.*"
        return PassageAnswer("\n\n".join([*_fitting(passage), credit]), source)

    def _score(self, question_terms: frozenset[str], least: float, number: int) -> float:
        """The score of a passage. 0: it doesn't match, or has less than `least` of the words."""
        terms, heading = self._terms[number], self._headings[number]
        shared = [term for term in question_terms if term in terms]
        if question_terms.isdisjoint(heading) or sum(self._rarity[term] for term in shared) < least:
            return 0.0
        # A frequent word means little more than one that comes twice.
        score = sum(self._rarity[term] * terms[term] / (terms[term] + 1) for term in shared)
        score *= _OF_QUESTIONS if self._passages[number].page == _QUESTIONS else 1.0
        return score * (1 + 2 * len(question_terms & heading) / len(question_terms | heading))


def split(page: str, markdown: str) -> list[Passage]:
    """The paragraphs and lists of a page, with what follows them. Not its comments and images."""
    sections: list[tuple[str, list[str]]] = [(page, [])]
    for block in _BLOCK.findall(markdown):
        text = block.rstrip()
        if text.startswith("#"):
            heading, _, text = text.partition("\n")
            sections.append((heading.lstrip("#").strip(), []))
        if text and not text.lstrip().startswith(_NEVER_SHOWN):
            sections[-1][1].append(
                text if _is_code(text) else _LINE_BREAK.sub(" ", _LOCAL_LINK.sub(r"\1", text))
            )
    return [
        Passage(page, heading, text, tuple(blocks[place + 1 :]))
        for heading, blocks in sections
        for place, text in enumerate(blocks)
        if not text.lstrip().startswith(_NO_PROSE)
    ]


def _is_code(block: str) -> bool:
    return block.lstrip().startswith("```")


def _fitting(passage: Passage) -> list[str]:
    blocks = [_shortened(passage.text)]
    if blocks[0] == passage.text:
        remaining_characters = _LONGEST_ANSWER_CHARACTERS - len(blocks[0])
        for block in passage.following_blocks:
            remaining_characters -= len(block)
            if remaining_characters < 0:
                break
            blocks.append(block)
    return blocks


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_PROSE_CHARACTERS:
        return text
    end = max(text.rfind(mark, 0, _LONGEST_PROSE_CHARACTERS) for mark in (". ", ".\n", ";", "\n"))
    return text[: end + 1 if end > 0 else _LONGEST_PROSE_CHARACTERS].rstrip()


def _terms(text: str) -> Counter[str]:
    # Plurals and other forms of a word match, and so do words that begin with the same six letters.
    words = (word for word in _WORD.findall(text.lower()) if word not in _COMMON)
    return Counter(_ENDING.sub("", word)[:6] for word in words)
