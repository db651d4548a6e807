"""Reserves the budgets of answers, and settles their usage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.errors import InvalidRequest, Overloaded, RateLimited
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.records.answer_usage import charged_usage, usage_record
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.budget import (
    Budget,
    Cost,
    Reservation,
    ReservationRequest,
    budgets_of,
    has_budgets,
)
from evenflow.stream_core.tenants.charges import TokenDemand
from evenflow.stream_core.tenants.usage import UsageRecord
from evenflow.stream_core.tenants.usage_store import ReservationGone, UsageStore


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """The expected cost of a request.

    Args:
        model: the model's name at its server.
        input_tokens: estimated.
        output_tokens: the longest that it may be. None: nothing bounds it.
    """

    model: str
    input_tokens: int
    output_tokens: int | None

    @classmethod
    def of(cls, demand: TokenDemand, model: str) -> Self:
        """The expected cost of a request of this demand."""
        return cls(model, demand.input_tokens, demand.output_tokens)


_logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_RETRY_AFTER_MS = 2_000
# Browsers' timers count no further, 24 days: what is longer is over at once.
_LONGEST_RETRY_MS = 2**31 - 1


@dataclass(slots=True)
class _GrowingReservation:
    """A reservation of this node for an answer.

    Args:
        bounds: the budgets by their counters.
        expected: the cost of one call of the model. Without `output_tokens` the reservation grows
            with the answer.
        lock: taken while the reservation grows.
    """

    reservation: Reservation
    bounds: dict[str, int]
    expected: ExpectedCost
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class BudgetReservations:
    """Reserves the most that answers may cost, and settles their true cost.

    It reserves only for tenants with budgets. It records usage only of tenants with a
    record or a key.

    Args:
        store: None: nothing is reserved or recorded, since there is no table of tenants.
        keeper: this node's lease.
        is_writing: whether a response, by its id, is still being stored by this node.
    """

    def __init__(
        self,
        context: NodeContext,
        store: UsageStore | None,
        *,
        prices: ModelPrices,
        keeper: LeaseKeeper,
        is_writing: Callable[[str], bool],
    ) -> None:
        self.store = store
        self.prices = prices
        """The prices of models."""
        self._keeper = keeper
        self._is_writing = is_writing
        self._tenants = context.tenants
        self._wall_time = context.wall_time
        self._step = context.limits.reserved_tokens
        self._reservations: dict[str, _GrowingReservation] = {}
        self._accepting: set[str] = set()
        self._background = Background()
        self._operator = OperatorLog(_logger, context.monotonic)
        context.metrics.gauge(catalogue.BUDGET_RESERVATIONS, lambda: len(self._reservations))

    async def aclose(self) -> None:
        """Stop all reservations that are under way."""
        await self._background.aclose()

    # -- acceptance --------------------------------------------------------------------------------

    def reserves_for(self, tenant: str) -> bool:
        """Whether answers of a tenant may need a reservation."""
        return self.store is not None and has_budgets(self._tenants.of(tenant))

    async def reserve(
        self, stream: ResponseStream, terms: MessageTerms, expected: ExpectedCost
    ) -> None:
        """Reserve the most that an answer may cost, while its message is being accepted.

        `release` gives it back. After `confirm` the answer's end settles it.

        Raises:
            RateLimited: a budget has no room for it.
            InvalidRequest: a budget is in dollars, and the model has no price.
            Overloaded: the store can't be reached.
        """
        now = self._wall_time()
        tenant = self._tenants.of(stream.channel.tenant)
        budgets = budgets_of(tenant, terms.key, terms.user, now)
        store = self.store
        if store is None or not budgets:
            return
        self._accepting.add(stream.response_id)
        try:
            await self._reserve(store, stream, budgets, expected, now, shadow=tenant.shadow)
        except BaseException:
            # Also if the store did not answer: it may have reserved it.
            self.release(stream)
            raise

    def confirm(self, stream: ResponseStream) -> None:
        """Keep a reservation: the message was accepted."""
        self._accepting.discard(stream.response_id)

    def release(self, stream: ResponseStream) -> None:
        """Release a reservation: the message was not accepted."""
        response_id = stream.response_id
        if self.store is not None and response_id in self._accepting:
            self._accepting.discard(response_id)
            self._reservations.pop(response_id, None)
            tenant = self._tenants.of(stream.channel.tenant)
            self._background.run(_release(self.store, tenant.id, response_id))

    async def _reserve(
        self,
        store: UsageStore,
        stream: ResponseStream,
        budgets: tuple[Budget, ...],
        expected: ExpectedCost,
        now: float,
        *,
        shadow: bool,
    ) -> None:
        if not shadow and any(budget.in_dollars for budget in budgets):
            self._check_price(expected.model)
        most = self._most(expected)
        reservation = Reservation(
            stream.channel.tenant,
            stream.response_id,
            self._keeper.owner,
            now,
            {budget.counter: most.of(budget.counter) for budget in budgets},
        )
        bounds = {} if shadow else {budget.counter: budget.bound for budget in budgets}
        try:
            full = await store.reserve(ReservationRequest(reservation, bounds))
        except StoreUnavailable as error:
            raise Overloaded(
                "what this tenant has used cannot be read; the message was not accepted, running "
                "answers go on, send it again later",
                code="store_unavailable",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from error
        if full is not None:
            raise _exhausted(next(each for each in budgets if each.counter == full), most, now)
        self._keep(store, stream, _GrowingReservation(reservation, bounds, expected))

    def _most(self, expected: ExpectedCost) -> Cost:
        """The most that one call may cost. Without a length limit: with one step of output."""
        output = self._step if expected.output_tokens is None else expected.output_tokens
        dollars = self.prices.most_nanodollars(expected.model, expected.input_tokens, output)
        return Cost(expected.input_tokens + output, dollars or 0)

    def _check_price(self, model: str) -> None:
        if self.prices.cost(model, 0, 0) is None:
            raise InvalidRequest(
                f"this tenant has a budget in dollars, and the model {model!r} has no price in "
                "EVENFLOW_MODEL_PRICES; the message was not accepted, ask another model, or the "
                "operator for its price",
                code="model_without_price",
                param="model",
            )

    # -- growing -----------------------------------------------------------------------------------

    def _keep(
        self, store: UsageStore, stream: ResponseStream, growing: _GrowingReservation
    ) -> None:
        self._reservations[stream.response_id] = growing
        if growing.expected.output_tokens is None:
            grow = partial(self._grow, store, stream)
            stream.allowance.set_on_low(lambda: self._background.run(grow()))
            self._allow(stream, growing)
        elif growing.bounds:
            # The model's server may ignore the length.
            stream.allowance.limit_call(growing.expected.output_tokens)

    def _allow(self, stream: ResponseStream, growing: _GrowingReservation) -> None:
        allowed = self._step * (growing.reservation.step + 1)
        # The next step is reserved while some of this one is left: the answer need not wait.
        stream.reserve_tokens(allowed, allowed - self._step // 4)

    async def _grow(self, store: UsageStore, stream: ResponseStream) -> None:
        """Reserve one more step for an answer that has nearly used up its reservation."""
        growing = self._reservations.get(stream.response_id)
        if growing is None or stream.log.closed:
            return
        if await self._reserve_more(store, stream, growing, input_tokens=0):
            self._allow(stream, growing)
        elif not stream.log.closed:
            stream.stop_reserving()

    async def reserve_call(self, stream: ResponseStream, input_tokens: int) -> bool:
        """Reserve the cost of one more call of the model, for the next step of an answer.

        Args:
            input_tokens: the estimated input of the call.

        Returns:
            Whether it fits into the budgets. True where nothing is reserved for the answer.
        """
        growing, store = self._reservations.get(stream.response_id), self.store
        if growing is None or store is None:
            return True
        fits = await self._reserve_more(store, stream, growing, input_tokens)
        if fits and growing.expected.output_tokens is None:
            self._allow(stream, growing)
        return fits

    async def _reserve_more(
        self,
        store: UsageStore,
        stream: ResponseStream,
        growing: _GrowingReservation,
        input_tokens: int,
    ) -> bool:
        """Reserve one more call, or without input one more step. Returns whether it fits."""
        more = self._most(replace(growing.expected, input_tokens=input_tokens))
        async with growing.lock:
            before: Reservation | None = growing.reservation
            while not stream.log.closed:
                extended = _extended(before or growing.reservation, more)
                try:
                    try:
                        full = await store.reserve(
                            ReservationRequest(extended, growing.bounds, before)
                        )
                    except ReservationGone:
                        # Another node released it: this one seemed lost before the message was
                        # stored. Or the earlier owner, which was suspended, has extended it.
                        before = await store.reservation(extended.tenant, extended.response_id)
                        continue
                except StoreUnavailable:
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                if full is None:
                    growing.reservation = extended
                return full is None
            return False

    def adopt_reservation(
        self, stream: ResponseStream, terms: MessageTerms, expected: ExpectedCost
    ) -> None:
        """Adopt the reservation of an answer that this node has taken over, if it has one."""
        if self.store is not None and has_budgets(self._tenants.of(stream.channel.tenant)):
            self._background.run(self._adopt(self.store, stream, terms, expected))

    async def _adopt(
        self,
        store: UsageStore,
        stream: ResponseStream,
        terms: MessageTerms,
        expected: ExpectedCost,
    ) -> None:
        tenant = self._tenants.of(stream.channel.tenant)
        while not stream.log.closed:
            try:
                found = await store.reservation(tenant.id, stream.response_id)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if found is not None and not stream.log.closed:
                of_then = budgets_of(tenant, terms.key, terms.user, found.created_at)
                bounds = {} if tenant.shadow else {each.counter: each.bound for each in of_then}
                self._keep(store, stream, _GrowingReservation(found, bounds, expected))
            return

    # -- the end -----------------------------------------------------------------------------------

    def settle(self, stream: ResponseStream, ended_at: float) -> Awaitable[None] | None:
        """Store the usage of an answer that has ended. A repetition changes nothing.

        Args:
            ended_at: seconds since the epoch.

        Returns:
            What stores it. It raises StoreUnavailable if the store can't be reached. None: nothing
            is to be stored.
        """
        if self._records_usage(stream.channel.tenant, stream.figures.key):
            return self._store_usage(stream, ended_at)
        self._settled(stream)
        return None

    async def _store_usage(self, stream: ResponseStream, ended_at: float) -> None:
        await self.settle_record(usage_record(stream, ended_at, self.prices))
        self._settled(stream)

    def _settled(self, stream: ResponseStream) -> None:
        """Drop the reservation of an answer. Its usage is stored."""
        stream.allowance.set_on_low(None)
        self._reservations.pop(stream.response_id, None)
        self._warn_of_excess(stream)

    def _warn_of_excess(self, stream: ResponseStream) -> None:
        """Log that the model's server reported more tokens than can be true or were reserved."""
        reported, charged = stream.usage, charged_usage(stream)
        if reported is None or charged is None or reported == charged:
            return
        self._operator.warning(
            f"the server of the model {stream.figures.model!r} reported more tokens than its "
            "request can have, or were reserved for the answer; fewer were charged, and the answer "
            "was kept: check the server's `usage` (docs/budgets.md)",
            f"{reported.prompt_tokens:,} of input and {reported.completion_tokens:,} of output, "
            f"charged {charged.prompt_tokens:,} and {charged.completion_tokens:,}",
        )

    async def settle_record(self, record: UsageRecord) -> None:
        """Store a usage record, if usage of its tenant is recorded.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        if self.store is None or not self._records_usage(record.tenant, record.key):
            return
        tenant = self._tenants.of(record.tenant)
        budgets = budgets_of(tenant, record.key, record.user, record.ended_at)
        await self.store.settle(record, [budget.counter for budget in budgets])

    def _records_usage(self, tenant: str, key: str) -> bool:
        # A tenant may have been removed since. Answers to its key are its usage all the same.
        return self.store is not None and bool(key or self._tenants.is_known(tenant))

    def is_here(self, response_id: str) -> bool:
        """Whether an answer is this node's, or is being accepted by it."""
        return response_id in self._accepting or self._is_writing(response_id)

    def drop_others(self) -> None:
        """Drop the reservations of answers that other nodes have now."""
        for response_id in tuple(self._reservations):
            if not self.is_here(response_id):
                del self._reservations[response_id]


def _extended(reservation: Reservation, more: Cost) -> Reservation:
    amounts = {name: most + more.of(name) for name, most in reservation.amounts.items()}
    return replace(reservation, amounts=amounts, step=reservation.step + 1)


async def _release(store: UsageStore, tenant: str, response_id: str) -> None:
    try:
        await store.release(tenant, response_id)
    except StoreUnavailable:
        _logger.info("the reservation of %s is released by the next sweep", response_id)


def _exhausted(budget: Budget, most: Cost, now: float) -> RateLimited:
    unit, _, whose = budget.counter.split("/")[:3]
    period = "monthly" if budget.in_dollars else "daily"
    return RateLimited(
        f"the {period} budget of this {whose} has no room for {most.of(budget.counter):,} {unit}, "
        "the most that this answer may take; the message was not accepted, ask for a shorter "
        "answer, or again in the next period",
        code="budget_exhausted",
        retry_after_ms=max(1, min(_LONGEST_RETRY_MS, int((budget.ends_at - now) * 1000))),
    )
