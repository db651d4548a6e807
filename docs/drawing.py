"""The architecture, drawn: boxes and arrows are named here, `docs/architecture.svg` is written
from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 960, 452
_CELL = 30
_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#13201c}.small{font-size:12px;fill:#4c5c56}"
    ".title{font-weight:600}.box{fill:#fff;stroke:#0b7a63;stroke-width:1.5}"
    ".node{fill:#e3f1ec;stroke:#0b7a63;stroke-width:1.5}"
    ".store{fill:#fff;stroke:#7b8a84;stroke-width:1.5;stroke-dasharray:5 4}"
    ".cell{fill:#fff;stroke:#7b8a84}"
    ".join{stroke:#0b7a63;stroke-width:1.5;fill:none}"
    ".arrow{stroke:#0b7a63;stroke-width:1.5;fill:none;marker-end:url(#tip)}"
    ".back{stroke:#7b8a84;stroke-width:1.5;fill:none;marker-end:url(#grey);stroke-dasharray:5 4}"
)


@dataclass(frozen=True)
class Box:
    """A rectangle with a title and lines below it."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "box"

    def drawn(self) -> Iterator[str]:
        """Its elements."""
        yield (
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" '
            f'height="{self.height}" rx="8"/>'
        )
        yield _text(self.x + 14, self.y + 24, self.title, "title")
        yield from (
            _text(self.x + 14, self.y + 44 + 18 * row, line, "small")
            for row, line in enumerate(self.lines)
        )


@dataclass(frozen=True)
class Arrow:
    """Through these points, with its tip at the last one."""

    points: tuple[tuple[int, int], ...]
    kind: str = "arrow"

    def drawn(self) -> Iterator[str]:
        """Its element."""
        yield f'<path class="{self.kind}" d="M{"L".join(f"{x} {y}" for x, y in self.points)}"/>'


_BOXES = (
    Box(20, 54, 190, 84, "Browser", ("page, <evenflow-chat>,", "or @evenflow/client")),
    Box(20, 164, 190, 66, "OpenAI client", ("POST /v1/chat/completions",)),
    Box(340, 24, 330, 230, "Evenflow node", (), "node"),
    Box(340, 294, 250, 62, "Another node", ("takes over when the first is lost",), "node"),
    Box(340, 388, 330, 44, "Shared store (DynamoDB, in AWS)", (), "store"),
    Box(750, 50, 190, 66, "Any OpenAI server", ("vLLM, llama.cpp, LiteLLM",)),
    Box(750, 134, 190, 66, "Your own backend", ("agents, retrieval, tools",)),
    Box(750, 218, 190, 66, "Bedrock, SageMaker", ("in AWS",)),
    Box(750, 302, 190, 66, "Demo model", ("built in, needs nothing",)),
)
_ARROWS = (
    Arrow(((726, 102), (658, 102))),
    Arrow(((340, 96), (214, 96))),
    Arrow(((340, 197), (214, 197))),
    Arrow(((630, 254), (630, 384)), "back"),
    Arrow(((465, 388), (465, 360)), "back"),
    Arrow(((340, 325), (115, 325), (115, 234)), "back"),
)
# From each of the models to the line on which their tokens come.
_JOINS = ("M750 83H726V335H750", "M750 167H726", "M750 251H726")
_LABELS = (
    (222, 70, "WebSocket, SSE"),
    (222, 86, "or long-polling"),
    (222, 187, "SSE"),
    (126, 316, "the same readers, after that"),
    (354, 80, "An answer is a numbered log that a model fills."),
    (354, 166, "Each reader has a place of its own in it. A slow"),
    (354, 184, "reader catches up; one that was cut off comes"),
    (354, 202, "back and names the last number that it has."),
    (354, 232, "One clock sends to all readers, evenly."),
    (638, 316, "each answer,"),
    (638, 332, "as it grows"),
)
_READERS = ((3, "a slow reader"), (9, "a quick one"))


def architecture_svg() -> str:
    """The whole drawing."""
    shapes = [line for shape in (*_BOXES, *_ARROWS) for line in shape.drawn()]
    labels = [_text(x, y, words, "small") for x, y, words in _LABELS]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
            "<!-- Written by `make docs` from docs/drawing.py: change it there. -->",
            (
                "<title>Models append to a log of each answer; readers of every transport read it "
                "from their own place</title>"
            ),
            f"<style>{_STYLE}</style>",
            f"<defs>{_tip('tip', '#0b7a63')}{_tip('grey', '#7b8a84')}</defs>",
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#f6f7f5" rx="12"/>',
            *shapes,
            *(f'<path class="join" d="{path}"/>' for path in _JOINS),
            *_log(),
            *labels,
            "</svg>",
            "",
        ]
    )


def _log() -> Iterator[str]:
    for number in range(10):
        x = 354 + number * _CELL
        yield f'<rect class="cell" x="{x}" y="90" width="{_CELL}" height="26"/>'
        yield _text(x + 11, 108, str(number), "small")
    for number, reader in _READERS:
        x = 354 + number * _CELL + _CELL // 2
        yield f'<path d="M{x} 119l6 9h-12z" fill="#0b7a63"/>'
        yield f'<text class="small" text-anchor="end" x="{x - 10}" y="132">{reader}</text>'


def _tip(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
    )


def _text(x: int, y: int, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'
