"""How often each address may do something."""

from __future__ import annotations

from collections import OrderedDict

from evenflow.stream_core.policy.client_address import is_of_this_machine
from evenflow.stream_core.policy.token_bucket import TokenBucket

_BURST_SECONDS = 60
_MOST_ADDRESSES = 4_096


class AddressRates:
    """A rate for each address, with bursts of a minute's worth.

    Callers on the same machine are not counted: behind a proxy there that names nobody, all have
    its address. So many addresses are remembered (some 1.5 MB); one more, and the one idle longest
    begins anew.

    Args:
        rate: how often in a second.
        most_addresses: how many are remembered.
    """

    def __init__(self, rate: float, most_addresses: int = _MOST_ADDRESSES) -> None:
        self._rate = rate
        self._most_addresses = most_addresses
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> float:
        """Count one more. Returns 0.0, or the seconds until it may be; then it was not counted.

        Args:
            address: as `counted_address` gives it.
            now: seconds of a clock that never goes back.
        """
        if is_of_this_machine(address):
            return 0.0
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= self._most_addresses:
                self._buckets.popitem(last=False)
            bucket = TokenBucket(self._rate, self._rate * _BURST_SECONDS, now)
            self._buckets[address] = bucket
        else:
            self._buckets.move_to_end(address)
        return bucket.take(now)
