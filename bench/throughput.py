"""Frames, and what they cost."""

from dataclasses import dataclass

from bench.processes import Usage


@dataclass(frozen=True)
class Throughput:
    """Frames that arrived in a stretch of time, and the CPU that it took."""

    frames: int
    usage: Usage

    @property
    def per_second(self) -> float:
        """Frames for each second by the clock."""
        return self.frames / self.usage.seconds

    @property
    def per_core(self) -> float:
        """Frames for each CPU second of the server."""
        return self.frames / self.usage.server

    def __str__(self) -> str:
        return f"{self.per_second:,.0f} frames/s, {self.usage}"

    def as_figures(self) -> dict[str, float]:
        return {
            "frames_per_second": round(self.per_second),
            "frames_per_core_second": round(self.per_core),
            **self.usage.as_figures(),
        }
