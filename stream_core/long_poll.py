"""When a long-poll answers. Stateless, so that any task or Lambda function decides alike."""

from __future__ import annotations

_FIRST_LINGER_SECONDS = 1.0


def linger_seconds(from_index: int, seconds_since_first_delta: float) -> float:
    """How long a poll waits to collect more text.

    The first poll (`from_index` 0) doesn't wait. Later ones double, 1 s, 2 s, 4 s …, which follows from the time alone:
    a poll that begins *t* seconds after the first delta waits 1 + *t*.
    """
    if from_index == 0:
        return 0.0
    return _FIRST_LINGER_SECONDS + max(0.0, seconds_since_first_delta)


def answer_at(*, linger_until: float, timeout_at: float, has_news: bool, ended: bool) -> float:
    """The time at which a poll answers, unless something happens before; a past time means at once.

    Args:
        linger_until, timeout_at: seconds on one clock.
        has_news: whether there is text behind the poll's index.
        ended: whether the response has ended.
    """
    if ended:
        return 0.0
    return min(linger_until, timeout_at) if has_news else timeout_at
