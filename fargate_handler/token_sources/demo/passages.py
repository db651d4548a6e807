"""Finds the passage of the docs that answers a question: rare words count most, and a heading that asks the same."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_WORD = re.compile(r"[a-z0-9]+")
_COMMON = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "its",
        "me",
        "my",
        "of",
        "on",
        "or",
        "that",
        "the",
        "there",
        "they",
        "this",
        "to",
        "was",
        "we",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "you",
        "your",
        "tell",
        "about",
    ]
)
_LONGEST_CHARACTERS = 420
NO_PASSAGE = (
    "I am the demo model of Evenflow, and I answer from its documentation. I found nothing there about that. Ask me what "
    "Evenflow is, how it treats slow readers, or what happens when a tab is closed."
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph and where it stands."""

    page: str
    heading: str
    text: str


class Passages:
    """The paragraphs of a folder of Markdown pages, ready to be searched."""

    def __init__(self, passages: list[Passage]) -> None:
        self._passages = passages
        self._headings = [frozenset(_terms(p.heading)) for p in passages]
        self._terms = [_terms(p.heading) + _terms(p.text) for p in passages]
        seen_in = Counter(term for terms in self._terms for term in terms)
        self._rarity = {term: math.log(1 + len(passages) / n) for term, n in seen_in.items()}

    @classmethod
    def read(cls, folder: Path) -> Passages:
        """All paragraphs of `folder`'s pages (`*.md`, not those of sub-folders)."""
        return cls([p for page in sorted(folder.glob("*.md")) for p in split(page.stem, page.read_text("utf-8"))])

    def answer(self, question: str) -> str:
        """The best passage's text with its source, or a sentence that says that there is none."""
        asked = frozenset(_terms(question))
        scores = [self._score(asked, number) for number in range(len(self._passages))]
        best = max(scores, default=0.0)
        if best == 0.0:
            return NO_PASSAGE
        passage = self._passages[scores.index(best)]
        return f"{_shortened(passage.text)}\n\n(docs/{passage.page}.md, “{passage.heading}”)"

    def _score(self, asked: frozenset[str], number: int) -> float:
        terms, heading = self._terms[number], self._headings[number]
        # A word that comes often says little more than one that comes twice.
        found = sum(self._rarity[term] * terms[term] / (terms[term] + 1) for term in asked if term in terms)
        same = len(asked & heading) / len(asked | heading) if asked else 0.0
        return found * (1 + 2 * same)


def split(page: str, markdown: str) -> list[Passage]:
    """The prose paragraphs and lists of a page; code blocks, tables and comments are passed over."""
    passages, heading = [], page
    without_code = re.sub(r"```.*?```|<!--.*?-->", "", markdown, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n", without_code):
        text = block.strip()
        lines = text.split("\n")
        if text.startswith("#"):
            heading = lines[0].lstrip("#").strip()
            text = "\n".join(lines[1:]).strip()
        if text and not text.startswith(("|", "!", "<")):
            passages.append(Passage(page, heading, _plain(text)))
    return passages


def _plain(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    text = re.sub(r"\n(?![-*0-9])", " ", text)
    return re.sub(r"\*\*|`", "", text)


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_CHARACTERS:
        return text
    end = max(text.rfind(mark, 0, _LONGEST_CHARACTERS) for mark in (". ", ".\n", ";", "\n"))
    return text[: end + 1 if end > 0 else _LONGEST_CHARACTERS].rstrip()


def _terms(text: str) -> Counter[str]:
    # Plurals and -ing forms meet their stems half-way: the first six letters decide.
    return Counter(word[:6] for word in _WORD.findall(text.lower()) if word not in _COMMON)
