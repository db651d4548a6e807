"""Ids of spans that every node can compute from the response's id."""

from __future__ import annotations

import hashlib

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


def trace_id_of(response_id: str) -> int:
    """The trace of a message that came without one: the 128 random bits of its response's id."""
    return int(response_id.removeprefix("rsp_"), 16)


def answer_span_id(response_id: str, epoch: int) -> int:
    """The span `answer` at the response's owner of an epoch.

    So a node that adopts the response can link to a span that its former node may have lost.
    """
    digest = hashlib.sha256(f"{response_id}:{epoch}".encode()).digest()
    return int.from_bytes(digest[:8]) or 1


class ChosenIds(RandomIdGenerator):
    """Generates random ids, except for the span with chosen ids."""

    def __init__(self) -> None:
        self._trace_id: int | None = None
        self._span_id: int | None = None

    def choose(self, trace_id: int, span_id: int) -> None:
        """Choose the ids of the span that is made next. `trace_id` is for one without a parent."""
        self._trace_id, self._span_id = trace_id, span_id

    def generate_span_id(self) -> int:
        """The id that was chosen, once. Then random ones."""
        chosen_id, self._span_id = self._span_id, None
        return super().generate_span_id() if chosen_id is None else chosen_id

    def generate_trace_id(self) -> int:
        """The id that was chosen, once. Then random ones."""
        chosen_id, self._trace_id = self._trace_id, None
        return super().generate_trace_id() if chosen_id is None else chosen_id
