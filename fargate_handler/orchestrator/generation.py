"""The worker of one response: attempts, deadlines, fallback, cancellation. It ends by closing the response, always."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from fargate_handler.orchestrator.whole_request import WholeRequest, brings_conversation
from fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSource
from stream_core.delivery_clock import DeliveryClock
from stream_core.errors import (
    EvenflowError,
    InternalError,
    ModelRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from stream_core.limits import Limits
from stream_core.response_stream import ResponseFull, ResponseStream

_logger = logging.getLogger(__name__)

# The end of the grace period is noticed this share of it late, within these bounds (deadlines are looked at when due).
_LOOKS_PER_GRACE = 10
_LOOK_SECONDS = (0.1, 3.0)
_LEASE_LOOK_SECONDS = 0.1
_RETRY_PAUSE_SECONDS = (0.05, 0.25)
_LONGEST_RETRY_PAUSE_SECONDS = 2.0


class Generation:
    """Generates one response.

    Args:
        stream: where the tokens go; closed when the generation has ended.
        asked: what the model sees.
        grace_seconds: without a reader for so long, the model is cancelled.
        fallback_text: the answer when every attempt failed; empty for an error instead.
        in_force: whether this task may say how the response ends; while it may not, the end waits.
        on_attempt: called as each attempt after the first begins.
        on_end: called once, when the response has ended, or was abandoned, and the model is closed.
    """

    def __init__(
        self,
        *,
        stream: ResponseStream,
        asked: WholeRequest,
        source: TokenSource,
        clock: DeliveryClock,
        limits: Limits,
        grace_seconds: float,
        fallback_text: str,
        monotonic: Callable[[], float],
        in_force: Callable[[], bool],
        on_attempt: Callable[[], None],
        on_end: Callable[[Generation], None],
    ) -> None:
        self.stream = stream
        self.started_at: float | None = None
        self._asked = asked
        self._source = source
        self._clock = clock
        self._limits = limits
        self._grace = grace_seconds
        self._fallback_text = fallback_text
        self._monotonic = monotonic
        self._in_force = in_force
        self._on_attempt = on_attempt
        self._on_end = on_end
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._abandoned = False
        self._attempt: asyncio.Task[ModelFinish] | None = None
        self._overdue: UpstreamTimeout | None = None
        self._looked_at = 0.0
        self._first_token_by = 0.0
        self._finish_by = 0.0
        self._tokens_before = 0
        # Of a response that this task took up, and continues, there is a beginning.
        self._prefix = stream.log.text if source.continues else ""
        self._last_attempt = stream.attempt + limits.model_retries
        shortest, longest = _LOOK_SECONDS
        self._look_every = min(longest, max(shortest, grace_seconds / _LOOKS_PER_GRACE))
        self._look_slot = clock.put_after(self, self._look_every)

    @property
    def abandoned(self) -> bool:
        """Whether another task goes on with the response."""
        return self._abandoned

    def start(self) -> None:
        """A worker is free: begin."""
        self.started_at = self._monotonic()
        self.stream.start()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """End the response as cancelled now, and the model as soon as its source lets go. Late calls change nothing."""
        if self._over:
            return
        self.stream.cancel()
        self._stop()

    def interrupt(self, error: EvenflowError) -> None:
        """End the response with `error` now, and the model as soon as its source lets go."""
        if self._over:
            return
        self.stream.fail(error.to_object())
        self._stop()

    def abandon(self) -> None:
        """Stop the model and leave the response as it is: another task goes on with it."""
        if self._over:
            return
        self._abandoned = True
        self._stop()

    def _stop(self) -> None:
        if self._task is None:
            self._on_end(self)
        elif self._begun:
            self._task.cancel()
        # A task that has not begun finds its response ended; cancelled now, it would never get to its `finally`.

    # -- attempts ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._begun = True
        try:
            if not self._over:
                await self._attempts()
        except asyncio.CancelledError:
            # cancel(), interrupt() and abandon() have said so; anything else that ends our task is the process leaving.
            if not self._over:
                self.stream.cancel()
        finally:
            self._on_end(self)

    async def _attempts(self) -> None:
        """Try until an attempt completes the stream or none is left."""
        while True:
            outcome = await self._outcome()
            if self._over:
                return  # cancelled meanwhile, and the source answered that in its own way
            while not self._in_force():  # noqa: ASYNC110 - another task may answer by now; seldom, and seconds
                await asyncio.sleep(_LEASE_LOOK_SECONDS)
            if isinstance(outcome, ModelFinish):
                self.stream.complete(outcome.finish_reason, outcome.usage)
                return
            hopeless = isinstance(outcome, ModelRefused | UpstreamRejected)
            if hopeless or self.stream.attempt >= self._last_attempt:
                self._give_up(outcome)
                return
            await asyncio.sleep(_pause_before_retry(outcome))
            self._prefix = ""
            self._on_attempt()
            self.stream.restart()

    @property
    def _over(self) -> bool:
        return self._abandoned or self.stream.state.terminal

    async def _outcome(self) -> ModelFinish | EvenflowError:
        """How one attempt ends."""
        try:
            return await self._try()
        except ResponseFull:
            return ModelFinish("length", None)
        except EvenflowError as error:
            return error
        except Exception:
            _logger.exception("the token source failed in a way that it doesn't know")
            return InternalError("the model's connector failed; what was delivered was kept", code="internal_error")

    async def _try(self) -> ModelFinish:
        now = self._monotonic()
        self._looked_at = now
        self._first_token_by = now + self._limits.first_token_deadline_seconds
        self._finish_by = now + self._limits.model_deadline_seconds
        self._tokens_before = self.stream.tokens
        self._overdue = None
        stream = self.stream
        key = f"{stream.response_id}:{stream.epoch}:{stream.attempt}"
        request = ModelRequest(
            stream.channel.agent,
            self._asked.turns,
            stream.attempt,
            self._prefix,
            key,
            self._asked.options,
            marked=brings_conversation(stream.channel),
        )
        self._attempt = asyncio.get_running_loop().create_task(self._source.generate(request, self.stream))
        self._look_slot = self._clock.put_after(self, self._next_look(now))
        try:
            return await self._attempt
        except asyncio.CancelledError:
            if self._overdue is not None and not self._over:
                raise self._overdue from None
            raise
        finally:
            self._attempt.cancel()

    def _give_up(self, error: EvenflowError) -> None:
        refused = isinstance(error, ModelRefused)
        if refused or not self._fallback_text:
            self.stream.fail(error.to_object())
            return
        self.stream.restart()
        self.stream.error = error.to_object()
        self.stream.substitute(self._fallback_text)
        self.stream.complete("stop", None)

    # -- what time brings ----------------------------------------------------------------------------------------

    def on_due(self, slot: int) -> None:
        """Look at the grace period and the deadlines."""
        stream = self.stream
        if slot != self._look_slot or self._over:
            return
        now = self._monotonic()
        if stream.unread_since is not None and now - stream.unread_since >= self._grace:
            self.cancel()
            return
        if self._attempt is not None and self._overdue is None:
            self._check_deadlines(now)
        self._look_slot = self._clock.put_after(self, self._next_look(now))

    def _check_deadlines(self, now: float) -> None:
        if self.stream.held:
            # A held model owes nothing; its readers are bounded by the pause limit.
            self._finish_by += now - self._looked_at
            self._first_token_by += now - self._looked_at
        self._looked_at = now
        limits = self._limits
        if now >= self._first_token_by and self.stream.tokens == self._tokens_before:
            self._abort("first_token_timeout", f"the model gave no token for {limits.first_token_deadline_seconds:g} s")
        elif now >= self._finish_by:
            self._abort("model_timeout", f"the model did not finish within {limits.model_deadline_seconds:g} s")

    def _abort(self, code: str, what: str) -> None:
        self._overdue = UpstreamTimeout(f"{what}; what was delivered was kept", code=code)
        if self._attempt is not None:
            self._attempt.cancel()

    def _next_look(self, now: float) -> float:
        times = [now + self._look_every, self._finish_by]
        if self.stream.tokens == self._tokens_before:
            times.append(self._first_token_by)
        if self.stream.unread_since is not None:
            times.append(self.stream.unread_since + self._grace)
        return max(0.0, min(time for time in times if time > now) - now)


def _pause_before_retry(error: EvenflowError) -> float:
    if error.retry_after_ms is None:
        return random.uniform(*_RETRY_PAUSE_SECONDS)
    # Whoever throttles says when trying again makes sense; a reader waits, so not as long as that, and not all at once.
    return min(error.retry_after_ms / 1000, _LONGEST_RETRY_PAUSE_SECONDS) * random.uniform(0.5, 1.0)
