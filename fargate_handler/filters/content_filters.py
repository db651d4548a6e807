"""The filters that the settings choose, and what becomes of an attempt's sink by them."""

from __future__ import annotations

import asyncio
import importlib
import logging
import tomllib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from time import thread_time
from typing import Any, cast

from evenflow.fargate_handler.filters.filtering_sink import ContentFiltered, FilteringSink
from evenflow.fargate_handler.filters.guardrail import GuardedSink, Judge
from evenflow.fargate_handler.filters.retracting_sink import CheckedSink, RetractingSink
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.token_sources.port import ModelFinish, TokenSink
from evenflow.stream_core.base.channel import MessageKind
from evenflow.stream_core.base.errors import UpstreamExplained
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.filtering.cpu_budget import CpuBudget
from evenflow.stream_core.filtering.groups import Group
from evenflow.stream_core.filtering.pattern import (
    REDACTED,
    Pattern,
    Patterns,
    PatternUnsupported,
    check_expression,
)
from evenflow.stream_core.filtering.pattern_filter import PatternFilter
from evenflow.stream_core.filtering.port import (
    FilterAction,
    FilterChain,
    Filtering,
    MakeFilter,
    TextFilter,
)
from evenflow.stream_core.log.entries import Content
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.tenants.registry import Tenants

_logger = logging.getLogger(__name__)
# Characters of undecided text up to which each new piece is searched. Longer matches are retracted
# when their word has ended, or a quarter more has come.
_PROMPTLY = 64
_FILTERED = ModelFinish("content_filter", None)


class FilterUnusable(ValueError):
    """A filter of the settings can't be used, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class FilteredAttempt:
    """An attempt's sink with its filters."""

    sink: TokenSink
    _stages: Sequence[FilteringSink | GuardedSink]
    _checked: CheckedSink | None

    async def finish_of(self, generating: Coroutine[Any, Any, ModelFinish]) -> ModelFinish:
        """Wait for the model, and for what is cleared at its end. All else that waits is dropped.

        Raises:
            FilterFailed, ResponseFull, LogClosed: as of the stages' `push`. And what `generating`
                raises.
        """
        finish = _FILTERED
        try:
            with suppress(ContentFiltered):
                finish = await generating
            for stage in self._stages:
                try:
                    await stage.finish()
                except ContentFiltered:
                    finish = replace(finish, finish_reason=_FILTERED.finish_reason)
            if self._checked is not None:
                self._checked.check_all()
            return finish
        except UpstreamExplained as explained:
            raise explained.unexplained() from None
        finally:
            for stage in self._stages:
                await stage.close()


class ContentFilters:
    """The filters of this node.

    Args:
        mode: the mode of tenants without one in their record.
        groups: the groups of known patterns.
        own: patterns of the operator's.
        python: makes a filter of the operator's. None: there is none.
    """

    def __init__(
        self,
        mode: Filtering,
        tenants: Tenants,
        metrics: Metrics,
        monotonic: Callable[[], float],
        *,
        groups: Iterable[Group] = ("secrets",),
        own: Sequence[Pattern] = (),
        python: MakeFilter | None = None,
        guardrail: Judge | None = None,
        action: FilterAction = FilterAction.REDACT,
    ) -> None:
        self._mode = mode
        self._tenants = tenants
        self._monotonic = monotonic
        self._groups = tuple(groups)
        self._own_patterns = tuple(own)
        self._python = python
        self._guardrail = guardrail
        self._action = action
        self._turns = asyncio.Lock()
        self._matches = metrics.labelled(catalogue.FILTER_MATCHES)
        distribution = metrics.distribution(catalogue.FILTER_HELD)
        self._record_held: Callable[[float], None] = lambda seconds: distribution.record(
            seconds * 1000
        )

    def of(
        self,
        stream: ResponseStream,
        kind: MessageKind,
        sink: TokenSink,
        current_contents: Iterable[Content],
    ) -> FilteredAttempt | None:
        """The sink of an attempt. None: nothing is filtered.

        Args:
            sink: receives cleared text.
            current_contents: the current content of the answer, which the attempt continues.
        """
        mode = self._mode_of(stream.channel.tenant)
        if mode is Filtering.OFF:
            return None
        if mode is Filtering.HOLD or kind.brings_conversation:  # its clients cannot retract text
            budget = CpuBudget(thread_time, _log_budget_spent)
            stages = self._stages(sink, current_contents, self._matches.count, budget)
            return FilteredAttempt(stages[0], stages, None)
        stream.show_unfiltered()
        checked = CheckedSink(stream, sink)

        def take_back(name: str) -> None:
            self._matches.count(name)
            checked.withdraw()

        def hold() -> None:
            _log_budget_spent()
            checked.withdraw()

        budget = CpuBudget(thread_time, hold)
        stages = self._stages(checked, (), take_back, budget, promptly=_PROMPTLY)
        return FilteredAttempt(
            RetractingSink(checked, stages[0], current_contents), stages, checked
        )

    def retracts(self, tenant: str) -> bool:
        """Whether text of a running answer of this tenant may be retracted."""
        return self._mode_of(tenant) is Filtering.RETRACT

    def _mode_of(self, tenant: str) -> Filtering:
        return Filtering(self._tenants.of(tenant).filtering or self._mode)

    async def close(self) -> None:
        """Close the connections."""
        if self._guardrail is not None:
            await self._guardrail.close()

    def _stages(
        self,
        sink: TokenSink,
        current_contents: Iterable[Content],
        on_match: Callable[[str], None],
        budget: CpuBudget,
        promptly: int = 0,
    ) -> list[FilteringSink | GuardedSink]:
        guarded: list[GuardedSink] = []
        if self._guardrail is not None:
            on_guardrail_match = partial(on_match, "guardrail")
            guarded = [GuardedSink(sink, self._guardrail, self._action, on_guardrail_match)]
        first = FilteringSink(
            guarded[0] if guarded else sink,
            partial(self._filter, on_match, budget, promptly),
            current_contents,
            self._monotonic,
            self._record_held,
            budget,
            self._turns,
        )
        return [first, *guarded]

    def _filter(
        self, on_match: Callable[[str], None], budget: CpuBudget, promptly: int, text_so_far: str
    ) -> TextFilter:
        patterns = PatternFilter(
            self._patterns,
            text_so_far,
            action=self._action,
            on_match=on_match,
            promptly=promptly,
            budget=budget,
        )
        if self._python is None:
            return patterns
        return FilterChain([patterns, self._python(text_so_far)])

    @cached_property
    def _patterns(self) -> Patterns:
        # Tenths of a second, and megabytes: only where something is filtered.
        from evenflow.stream_core.filtering.known_patterns import patterns_of  # noqa: PLC0415

        return Patterns((*self._own_patterns, *patterns_of(self._groups)))


def _log_budget_spent() -> None:
    _logger.warning(
        "the content filters have used the CPU time of an answer: its text is held until its end"
    )


def patterns_from_toml(path: Path) -> tuple[Pattern, ...]:
    """The operator's own patterns: tables `[name]` with `regex`, and perhaps `replacement`.

    Raises:
        FilterUnusable: the file can't be read, or a pattern can't be used.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise FilterUnusable(f"cannot be read ({error})") from None
    return tuple(_pattern(name, table) for name, table in tables.items())


def _pattern(name: str, table: object) -> Pattern:
    if not isinstance(table, dict) or not isinstance(table.get("regex"), str):
        raise FilterUnusable(f"[{name}] needs a regex")
    if unknown := table.keys() - {"regex", "replacement"}:
        raise FilterUnusable(f"[{name}] has an unknown {min(unknown)}")
    replacement = table.get("replacement", REDACTED)
    if not isinstance(replacement, str):
        raise FilterUnusable(f"[{name}] needs a text as its replacement")
    try:
        check_expression(table["regex"])
    except PatternUnsupported as refused:
        raise FilterUnusable(f"the regex of [{name}] {refused}") from None
    return Pattern(name, table["regex"], replacement)


def filter_from_python(name: str) -> MakeFilter:
    """The operator's own filter, `package.module:name`. It is called for each text of each answer.

    Raises:
        FilterUnusable: it can't be imported, or isn't one.
    """
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise FilterUnusable("must be package.module:name")
    try:
        make = getattr(importlib.import_module(module), attribute)
        text_filter = make("")
    except Exception as error:
        raise FilterUnusable(f"cannot be used ({type(error).__name__}: {error})") from error
    if not (
        callable(getattr(text_filter, "push", None))
        and callable(getattr(text_filter, "finish", None))
    ):
        raise FilterUnusable("makes something without push and finish")
    return cast("MakeFilter", make)
