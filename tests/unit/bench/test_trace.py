"""The real trace, as it is replayed."""

from __future__ import annotations

from bench.peers.measure import LONGEST_ANSWER
from bench.trace import TRACE, read_trace


def test_requests_come_when_they_came_and_are_as_long_as_they_were() -> None:
    requests = read_trace(TRACE, 32.0, LONGEST_ANSWER)
    moments = [at for at, _, _ in requests]
    assert requests[0] == (0.0, 61, 9)
    assert moments == sorted(moments)
    assert 0 < moments[-1] < 32.0
    assert len(requests) < len(read_trace(TRACE, 60.0))
    assert max(length for _, _, length in requests) == LONGEST_ANSWER
