"""Decides whether one more call of an upstream may start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import inf
from typing import NamedTuple, TypeVar

from evenflow.stream_core.upstream.aimd_limit import AIMDLimit
from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from evenflow.stream_core.upstream.first_token_latency import FirstToken
from evenflow.stream_core.upstream.prefill_window import PrefillWindow
from evenflow.stream_core.upstream.rejection_backoff import (
    PauseScope,
    RejectedCall,
    RejectionBackoff,
)

K = TypeVar("K", bound=Hashable)


class _Prefill(NamedTuple):
    """A call without a token: its prompt, and the calls and prompts that were ahead of it."""

    tenant: str
    tokens: int
    ahead: int
    ahead_on_other_nodes: int
    concurrent: int
    concurrent_on_other_nodes: int
    began_at: float
    measured: bool = True


class ConcurrencyLimiter:
    """The calls of one upstream that run, and whether one more may start.

    Its signals are rejections (429) and the time to first token. It has three parts: a limit of
    calls (`AIMDLimit`), a limit of the tokens of prompts in prefill (`PrefillWindow`), and pauses
    after rejections (`RejectionBackoff`). All times are in seconds on a monotonic clock.

    A call has the id of its response. `acquire` comes first, then `record_first_token` or
    `record_rejection`, then `release`.

    Args:
        prefill_delay: the longest wait of a newcomer for the prompts of others, in seconds.
    """

    def __init__(self, prefill_delay: float) -> None:
        self.limit = AIMDLimit()
        """The limit of calls at once."""
        self.window = PrefillWindow(prefill_delay)
        """The limit of the tokens of prompts in prefill."""
        self.backoff = RejectionBackoff()
        """Pauses after rejections."""
        self.running = 0
        """The number of calls that run."""
        self.of_tenants = Counter[str]()
        """The number of calls that run, by tenant."""
        self.prompt_tokens = 0
        """Tokens of the prompts of calls that have no token yet."""
        self._of_senders = Counter[Hashable]()
        self._prefills: dict[str, _Prefill] = {}
        self._prefills_of_tenants = Counter[str]()

    @property
    def answered(self) -> int:
        """The number of calls that run and have a token."""
        return self.running - len(self._prefills)

    @property
    def is_answering(self) -> bool:
        """Whether any call that runs has a token, here or, as last reported, on other nodes."""
        return self.answered + self.limit.on_other_nodes.answered > 0

    @property
    def window_is_full(self) -> bool:
        """Whether a newcomer would wait too long with one more prompt."""
        return self.prompt_tokens >= self.window.tokens

    @property
    def only_reserved(self) -> bool:
        """Whether what is left of the limit is reserved for the least served tenant."""
        return self.limit.only_reserved(self.running, self.answered)

    def rejecting_since(self, own: int) -> float:
        """Since when every call was rejected, in seconds. inf: the upstream accepts calls.

        Args:
            own: the caller's calls among those that run. Others were accepted.
        """
        if self.running > own or self.limit.on_other_nodes.answered:
            return inf
        return self.backoff.rejecting_since

    def prefills_of(self, tenant: str) -> int:
        """The number of a tenant's calls without a token."""
        return self._prefills_of_tenants[tenant]

    def may_start(self, tenant: str, now: float, *, needs_room: bool = True) -> bool:
        """Whether one more call of a tenant may start.

        Records first that the upstream is silent, if it is: that raises an unknown limit.

        Args:
            needs_room: whether the limit of calls has to have room for it.
        """
        if self.backoff.paused_for(now):
            return False
        if not needs_room:
            return True
        self._record_silence(now)
        return self.limit.may_start(self.running, self.answered, tenant)

    @property
    def is_full(self) -> bool:
        """Whether the limit of calls at once is reached."""
        return not self.limit.may_start(self.running, self.answered)

    def acquire(
        self,
        call_id: str,
        tenant: str,
        sender: Hashable,
        now: float,
        prompt_tokens: int | None,
    ) -> None:
        """Count a call that starts.

        Args:
            prompt_tokens: of its prompt. None: the call has a token already.
        """
        if prompt_tokens is not None:
            other_nodes = self.limit.on_other_nodes
            self.limit.record_start(self.running, self.answered)
            self._prefills[call_id] = _Prefill(
                tenant,
                prompt_tokens,
                self.prompt_tokens,
                other_nodes.prompts,
                self.running,
                other_nodes.running,
                now,
            )
            self._prefills_of_tenants[tenant] += 1
            self.prompt_tokens += prompt_tokens
        self.running += 1
        self.of_tenants[tenant] += 1
        self._of_senders[sender] += 1

    def release(self, call_id: str, tenant: str, sender: Hashable) -> None:
        """Stop counting a call that has ended, or is no longer read."""
        self._end_prefill(call_id)
        self.running -= 1
        _decrement(self.of_tenants, tenant)
        _decrement(self._of_senders, sender)

    def record_first_token(self, call_id: str, now: float) -> None:
        """Learn from the first token of a call. A later one changes nothing."""
        prefill = self._end_prefill(call_id)
        if prefill is None:
            return
        self.backoff.record_acceptance(prefill.began_at)
        if not prefill.measured:
            return
        seconds = now - prefill.began_at
        self.window.record_first_token(prefill.ahead, prefill.tokens, seconds)
        token = FirstToken(
            prefill.concurrent,
            prefill.concurrent_on_other_nodes,
            prefill.tokens + prefill.ahead,
            prefill.ahead_on_other_nodes,
            seconds,
        )
        self.limit.record_first_token(token, self.answered, now)

    def record_rejection(
        self,
        now: float,
        began_at: float,
        retry_after: float | None,
        question: RejectedCall | None = None,
    ) -> float:
        """Learn from the rejection of a call that runs. The arguments are the backoff's.

        Returns:
            The seconds until the upstream accepts this question.
        """
        concurrent = self.running - 1
        on_other_nodes = self.limit.on_other_nodes.running > 0
        backoff = self.backoff.record_rejection(
            now,
            began_at,
            retry_after,
            question,
            concurrent=concurrent > 0,
            on_other_nodes=on_other_nodes,
        )
        sender_alone = question is not None and (
            self._of_senders[question.sender] == self.running > 1
        )
        if backoff.scope is PauseScope.ALL or (backoff.scope is PauseScope.SENDER and sender_alone):
            self.limit.record_rejection(concurrent, began_at, now, self.backoff.in_a_row)
        return backoff.seconds

    def forget_limit(self) -> None:
        """Forget the limit and the pauses, not the calls that run or what other nodes report."""
        on_other_nodes, self.limit = self.limit.on_other_nodes, AIMDLimit()
        self.limit.on_other_nodes = on_other_nodes
        self.backoff = RejectionBackoff()

    def discard_latency(self, call_id: str) -> None:
        """Discard the latency of a call that failed and is retried."""
        if prefill := self._prefills.get(call_id):
            self._prefills[call_id] = prefill._replace(measured=False)

    def learn(self, on_other_nodes: CallsOnOtherNodes, now: float) -> None:
        """Learn from the reports of other nodes."""
        self.limit.learn(on_other_nodes, now)
        self.window.delay_on_other_nodes = on_other_nodes.delay

    def _record_silence(self, now: float) -> None:
        if self._prefills and not self.is_answering:
            oldest = next(iter(self._prefills.values()))
            self.limit.record_silence(now - oldest.began_at)

    def _end_prefill(self, call_id: str) -> _Prefill | None:
        prefill = self._prefills.pop(call_id, None)
        if prefill is not None:
            self.prompt_tokens -= prefill.tokens
            _decrement(self._prefills_of_tenants, prefill.tenant)
        return prefill


def _decrement(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
