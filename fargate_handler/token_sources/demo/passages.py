"""Finds the passage of the docs that answers a question: rare words count most, and a heading that asks the same."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_WORD = re.compile(r"[a-z0-9]+")
# Code with its blank lines, a comment, a line of HTML, or lines without a blank one between them.
_BLOCK = re.compile(
    r"^ *```.*?^ *```[^\n]*$|^<!--.*?-->|^<[^\n]*$|(?:^(?! *```|<)[^\n]*\S[^\n]*(?:\n|\Z))+", re.MULTILINE | re.DOTALL
)
_NEVER_SHOWN = ("<", "!")  # comments, anchors and images
# Where the answer is shown there are no such pages.
_LOCAL_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
# A chat shows a break where the page's source has one; only the next item or row is on a line of its own.
_LINE_BREAK = re.compile(r"\n *(?![-*|]|\d+\. )(?=\S)")
_NO_PROSE = ("|", "```")
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from has have how i if in is it its me my of on or that the there "
        "they this to was we what when where which who why will with you your tell about"
    )
)
_LONGEST_PROSE_CHARACTERS = 420
_LONGEST_ANSWER_CHARACTERS = 900
NO_PASSAGE = (
    "I am the demo model of Evenflow, and I answer from its documentation. I found nothing there about that. Ask me what "
    "Evenflow is, how it treats slow readers, or what happens when a tab is closed."
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph or list and where it stands, in Markdown. `more`: the blocks behind it, under the same heading."""

    page: str
    heading: str
    text: str
    more: tuple[str, ...] = ()


class Passages:
    """The paragraphs of a folder of Markdown pages, ready to be searched."""

    def __init__(self, passages: list[Passage]) -> None:
        self._passages = passages
        self._headings = [frozenset(_terms(p.heading)) for p in passages]
        self._terms = [_terms(p.heading) + _terms(p.text) for p in passages]
        seen_in = Counter(term for terms in self._terms for term in terms)
        self._rarity = {term: math.log(1 + len(passages) / n) for term, n in seen_in.items()}

    @classmethod
    @cache
    def read(cls, folder: Path) -> Passages:
        """All paragraphs of `folder`'s pages (`*.md`, not those of sub-folders), read once."""
        return cls([p for page in sorted(folder.glob("*.md")) for p in split(page.stem, page.read_text("utf-8"))])

    def answer(self, question: str) -> str:
        """The best passage and what belongs to it, in Markdown, with its source; or a sentence that says that there is none."""
        asked = frozenset(_terms(question))
        scores = [self._score(asked, number) for number in range(len(self._passages))]
        best = max(scores, default=0.0)
        if best == 0.0:
            return NO_PASSAGE
        passage = self._passages[scores.index(best)]
        return "\n\n".join([*_fitting(passage), f"*docs/{passage.page}.md, “{passage.heading}”*"])

    def _score(self, asked: frozenset[str], number: int) -> float:
        terms, heading = self._terms[number], self._headings[number]
        # A word that comes often says little more than one that comes twice.
        found = sum(self._rarity[term] * terms[term] / (terms[term] + 1) for term in asked if term in terms)
        same = len(asked & heading) / len(asked | heading) if asked else 0.0
        return found * (1 + 2 * same)


def split(page: str, markdown: str) -> list[Passage]:
    """The prose paragraphs and lists of a page, with what follows them; comments and images are passed over."""
    sections: list[tuple[str, list[str]]] = [(page, [])]
    for block in _BLOCK.findall(markdown):
        text = block.rstrip()
        if text.startswith("#"):
            heading, _, text = text.partition("\n")
            sections.append((heading.lstrip("#").strip(), []))
        if text and not text.lstrip().startswith(_NEVER_SHOWN):
            sections[-1][1].append(text if _is_code(text) else _LINE_BREAK.sub(" ", _LOCAL_LINK.sub(r"\1", text)))
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
        left = _LONGEST_ANSWER_CHARACTERS - len(blocks[0])
        for block in passage.more:
            left -= len(block)
            if left < 0:
                break
            blocks.append(block)
    return blocks


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_PROSE_CHARACTERS:
        return text
    end = max(text.rfind(mark, 0, _LONGEST_PROSE_CHARACTERS) for mark in (". ", ".\n", ";", "\n"))
    return text[: end + 1 if end > 0 else _LONGEST_PROSE_CHARACTERS].rstrip()


def _terms(text: str) -> Counter[str]:
    # Plurals and -ing forms meet their stems half-way: the first six letters decide.
    return Counter(word[:6] for word in _WORD.findall(text.lower()) if word not in _COMMON)
