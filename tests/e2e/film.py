"""Pictures with their times, and what happened when, become one moving picture with a strip that
tells it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

_STRIP = 64
_FRAMES_PER_SECOND = 10
_INK, _PAPER, _GOOD, _BAD = "#e8efec", "#13201c", "#35b58f", "#e5614f"


@dataclass(frozen=True)
class Scene:
    """What is so from a moment on.

    Args:
        at: seconds, on the clock of the pictures.
        nodes: which of the two run.
        speed: so many times as quick as it was.
    """

    at: float
    caption: str
    network: bool
    nodes: tuple[bool, bool]
    speed: int


class Film:
    """The pictures, cut at the first scene."""

    def __init__(
        self, pictures: Sequence[tuple[float, Image.Image]], scenes: Sequence[Scene]
    ) -> None:
        self._pictures = pictures
        self._scenes = scenes
        self._times = [at for at, _ in pictures]
        self._caption = ImageFont.load_default(17)
        self._small = ImageFont.load_default(14)

    def write(self, path: Path) -> int:
        """Write it as an animated WebP; returns its bytes."""
        first, *others = self._frames()
        first.save(
            path,
            save_all=True,
            append_images=others,
            duration=1000 // _FRAMES_PER_SECOND,
            loop=0,
            lossless=True,
            quality=90,
            method=4,
            minimize_size=True,
        )
        return path.stat().st_size

    def _frames(self) -> Iterator[Image.Image]:
        ends = [scene.at for scene in self._scenes[1:]] + [self._scenes[-1].at + 3]
        for scene, end in zip(self._scenes, ends, strict=True):
            at = scene.at
            while at < end:
                yield self._frame(at, scene)
                at += scene.speed / _FRAMES_PER_SECOND

    def _frame(self, at: float, scene: Scene) -> Image.Image:
        place = max(0, bisect.bisect_right(self._times, at) - 1)
        page = self._pictures[place][1]
        frame = Image.new("RGB", (page.width, page.height + _STRIP), _PAPER)
        frame.paste(page, (0, 0))
        draw = ImageDraw.Draw(frame)
        draw.text((20, page.height + 10), scene.caption, _INK, self._caption)
        x = 20.0
        states = (
            ("network", scene.network),
            ("node 1", scene.nodes[0]),
            ("node 2", scene.nodes[1]),
        )
        for name, is_well in states:
            colour = _GOOD if is_well else _BAD
            draw.ellipse((x, page.height + 43, x + 9, page.height + 52), colour)
            draw.text((x + 15, page.height + 39), name, colour, self._small)
            x += 30 + draw.textlength(name, self._small)
        speed = f"   (x{scene.speed})" if scene.speed > 1 else ""
        clock = f"{at - self._scenes[0].at:.1f} s{speed}"
        draw.text((page.width - 120, page.height + 39), clock, _INK, self._small)
        return frame
