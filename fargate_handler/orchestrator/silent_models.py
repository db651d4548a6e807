"""Finds running answers that get nothing that counts from their model."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.metrics import metric_catalogue as catalogue

# Two looks. A model that does not show its reasoning is silent for a minute now and then.
_SILENT_SECONDS = 110.0

_logger = logging.getLogger("evenflow.model")


@dataclass(frozen=True, slots=True)
class _AnswerState:
    """What an answer had at a look, and when it was first seen to have that."""

    entries: int
    tokens: int
    seen_at: float


class SilentModels:
    """Looks at the running answers once a minute, and counts those that get nothing.

    A comment that keeps the connection open is a sign of life, so no deadline ends such an answer
    before that of the whole answer. Its readers see a model that hangs.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._rate = metrics.ratio(catalogue.SILENT_RATE)
        self._progress: dict[str, _AnswerState] = {}

    def look(self, now: float, running: Collection[Generation]) -> None:
        """Count the silent ones, and warn of them. Called at the end of each minute."""
        before, self._progress = self._progress, {}
        silent = list[tuple[float, Generation]]()
        for generation in running:
            stream = generation.stream
            progress = _AnswerState(stream.log.next_index, stream.tokens, now)
            last = before.get(stream.response_id)
            if last is not None and last.tokens == progress.tokens:
                progress = last if last.entries == progress.entries else progress
            self._progress[stream.response_id] = progress
            if now - progress.seen_at >= _SILENT_SECONDS:
                silent.append((now - progress.seen_at, generation))
        self._rate.whole += len(running)
        self._rate.part += len(silent)
        if silent:
            self._warn(silent, len(running))

    def _warn(self, silent: list[tuple[float, Generation]], running: int) -> None:
        seconds, longest = max(silent, key=lambda each: each[0])
        _logger.warning(
            "%d of %d running answers have had nothing from their model for two minutes; their "
            "readers wait; %s by model %r for %d s. It ends by itself after "
            "EVENFLOW_MODEL_DEADLINE_SECONDS; check the model's server",
            len(silent), running, longest.stream.response_id, longest.upstream.name, int(seconds),
        )  # fmt: skip
