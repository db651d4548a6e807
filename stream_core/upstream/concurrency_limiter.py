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
from evenflow.stream_core.upstream.rejection_backoff import Paused, RejectedCall, RejectionBackoff

K = TypeVar("K", bound=Hashable)


class _Prefill(NamedTuple):
    """A call without a token: its prompt, and the calls and prompts before it."""

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

    Its signals are rejections (429) and the time to first token. It has three parts: how many calls
    may run (`AIMDLimit`), how many tokens of prompts may be in prefill (`PrefillWindow`), and
    pauses after rejections (`RejectionBackoff`). All times are in seconds on a monotonic clock.

    A call is known by the id of its response: `acquire`, then `first_token` or `rejected`, then
    `release`.

    Args:
        prefill_delay: how long a newcomer may wait for the prompts of others, in seconds.
    """

    def __init__(self, prefill_delay: float) -> None:
        self.limit = AIMDLimit()
        """How many calls may run at once."""
        self.window = PrefillWindow(prefill_delay)
        """How many tokens of prompts may be in prefill."""
        self.backoff = RejectionBackoff()
        """Pauses after rejections."""
        self.running = 0
        """How many calls run."""
        self.of_tenants = Counter[str]()
        """How many calls run, by tenant."""
        self.prompt_tokens = 0
        """Tokens of the prompts of calls that have no token yet."""
        self._of_senders = Counter[Hashable]()
        self._prefills: dict[str, _Prefill] = {}
        self._prefills_of_tenants = Counter[str]()

    @property
    def answered(self) -> int:
        """How many calls that run have a token."""
        return self.running - len(self._prefills)

    @property
    def is_answering(self) -> bool:
        """Whether any call that runs has a token, here or, as last reported, on other nodes."""
        return self.answered + self.limit.on_other_nodes.answered > 0

    @property
    def window_is_full(self) -> bool:
        """Whether one more prompt would have a newcomer wait for too long."""
        return self.prompt_tokens >= self.window.tokens

    @property
    def only_reserved(self) -> bool:
        """Whether what is left of the limit is reserved for the least served tenant."""
        return self.limit.only_reserved(self.running, self.answered)

    def rejecting_since(self, own: int) -> float:
        """Since when every call was rejected, in seconds. inf: the upstream accepts calls.

        Args:
            own: how many of the calls that run are the caller's. Others were accepted.
        """
        if self.running > own or self.limit.on_other_nodes.answered:
            return inf
        return self.backoff.rejecting_since

    def prefills_of(self, tenant: str) -> int:
        """How many calls of a tenant have no token yet."""
        return self._prefills_of_tenants[tenant]

    def may_start(self, tenant: str, now: float, *, resumes: bool = False) -> bool:
        """Whether one more call of a tenant may start.

        Args:
            resumes: whether it has begun before, so that it needs no room in the limit.
        """
        if self.backoff.paused_for(now):
            return False
        if resumes:
            return True
        self._note_silence(now)
        return self.limit.may_start(self.running, self.answered, tenant)

    @property
    def is_full(self) -> bool:
        """Whether as many calls run as the upstream is known to answer at once."""
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
            prompt_tokens: of its prompt. None: it has a token already.
        """
        if prompt_tokens is not None:
            others = self.limit.on_other_nodes
            self.limit.record_start(self.running, self.answered)
            self._prefills[call_id] = _Prefill(
                tenant,
                prompt_tokens,
                self.prompt_tokens,
                others.prompts,
                self.running,
                others.running,
                now,
            )
            self._prefills_of_tenants[tenant] += 1
            self.prompt_tokens += prompt_tokens
        self.running += 1
        self.of_tenants[tenant] += 1
        self._of_senders[sender] += 1

    def release(self, call_id: str, tenant: str, sender: Hashable) -> None:
        """Count a call that has ended, or is not read any more."""
        self._end_prefill(call_id)
        self.running -= 1
        _decrement(self.of_tenants, tenant)
        _decrement(self._of_senders, sender)

    def first_token(self, call_id: str, now: float) -> None:
        """Learn from the first token of a call. A later one changes nothing."""
        prefill = self._end_prefill(call_id)
        if prefill is None:
            return
        self.backoff.accepted(prefill.began_at)
        if not prefill.measured:
            return
        seconds = now - prefill.began_at
        self.window.first_token(prefill.ahead, prefill.tokens, seconds)
        token = FirstToken(
            prefill.concurrent,
            prefill.concurrent_on_other_nodes,
            prefill.tokens + prefill.ahead,
            prefill.ahead_on_other_nodes,
            seconds,
        )
        self.limit.first_token(token, self.answered, now)

    def rejected(
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
        others = self.running - 1
        on_other_nodes = self.limit.on_other_nodes.running > 0
        backoff = self.backoff.rejected(
            now,
            began_at,
            retry_after,
            question,
            concurrent=others > 0,
            on_other_nodes=on_other_nodes,
        )
        sender_alone = question is not None and (
            self._of_senders[question.sender] == self.running > 1
        )
        if backoff.paused is Paused.ALL or (backoff.paused is Paused.SENDER and sender_alone):
            self.limit.rejected(others, began_at, now, self.backoff.in_a_row)
        return backoff.seconds

    def discard_latency(self, call_id: str) -> None:
        """Learn nothing from when a call has its first token: it failed, and is made again."""
        if prefill := self._prefills.get(call_id):
            self._prefills[call_id] = prefill._replace(measured=False)

    def learn(self, on_other_nodes: CallsOnOtherNodes, now: float) -> None:
        """Take the reports of other nodes."""
        self.limit.learn(on_other_nodes, now)
        self.window.delay_on_other_nodes = on_other_nodes.delay

    def _note_silence(self, now: float) -> None:
        if self._prefills and not self.is_answering:
            oldest = next(iter(self._prefills.values()))
            self.limit.silent(now - oldest.began_at)

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
