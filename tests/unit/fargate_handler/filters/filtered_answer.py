"""An answer behind its filters, and what a model says into it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from evenflow.fargate_handler.filters.content_filters import ContentFilters, FilteredAttempt
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.filtering.port import Filtering
from evenflow.stream_core.log.entries import Content, joined
from evenflow.stream_core.tenants.registry import Tenants
from tests.unit.hand_turned_clock import HandTurnedClock

SECRET = "AKIA1234567890123456"


@dataclass
class FilteredAnswer:
    """A response and one attempt at it.

    Args:
        standing: what an earlier attempt has left.
        options: of `ContentFilters`.
    """

    mode: Filtering = Filtering.HOLD
    kind: MessageKind = CHAT
    standing: tuple[Content, ...] = ()
    tenants: Tenants = field(default_factory=Tenants)
    options: dict[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    clock: HandTurnedClock = field(default_factory=HandTurnedClock)

    def __post_init__(self) -> None:
        self.stream = ResponseStream(
            response_id="rsp_1",
            message_id="m1",
            channel=Channel("acme", "demo", "ses_1"),
            clock=self.clock.delivery,
            limits=Limits(),
            monotonic=self.clock.monotonic,
        )
        self.stream.start()
        filters = ContentFilters(
            self.mode, self.tenants, self.metrics, self.clock.monotonic, **self.options
        )
        for content in self.standing:
            _push(self.stream, content)
        self.stream.flush()
        self.attempt = filters.of(self.stream, self.kind, self.stream, self.standing)

    @property
    def filtered(self) -> FilteredAttempt:
        """The attempt, which is filtered."""
        assert self.attempt is not None
        return self.attempt

    @property
    def contents(self) -> list[Content]:
        """What stands, joined."""
        return list(joined(self.stream.log.read(0).current))

    @property
    def text(self) -> str:
        """The text that stands."""
        return self.stream.log.text

    @property
    def ever_shown(self) -> str:
        """All that is in the log, with what was taken back."""
        return "|".join(map(str, self.stream.log.entries))

    def say(self, *contents: Content) -> None:
        """The model says something."""
        for content in contents:
            _push(self.filtered.sink, content)
        self.stream.flush()

    async def all_of(
        self, contents: Iterable[Content], end: Exception | None = None
    ) -> ModelFinish:
        """The model says this and ends: by itself, or with an error."""

        async def generating() -> ModelFinish:
            self.say(*contents)
            if end is not None:
                raise end
            return ModelFinish("stop", None)

        finish = await self.filtered.finish_of(generating())
        self.stream.flush()
        return finish


def _push(sink: Any, content: Content) -> None:
    if isinstance(content, str):
        sink.push(content)
    else:
        sink.push_part(content)
