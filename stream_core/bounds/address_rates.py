"""Rate limits by address."""

from __future__ import annotations

from evenflow.stream_core.base.client_address import is_of_this_machine
from evenflow.stream_core.bounds.token_bucket import TokenBuckets

_BURST_SECONDS = 60
_MOST_ADDRESSES = 4_096


class AddressRates:
    """A rate for each address, with bursts of a minute's worth.

    The address of this machine is not counted. It is that of all clients of a local proxy without
    `X-Forwarded-For`. By default 4,096 addresses are remembered (some 1.5 MB); others begin
    with a full bucket.

    Args:
        rate: tokens in a second.
        most_addresses: the number of remembered addresses.
        burst_seconds: the size of a burst, in seconds' worth.
    """

    def __init__(
        self,
        rate: float,
        most_addresses: int = _MOST_ADDRESSES,
        burst_seconds: float = _BURST_SECONDS,
    ) -> None:
        self._buckets = TokenBuckets(rate, rate * burst_seconds, most_addresses)

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> float:
        """Take one token. Returns 0.0, or the seconds until there is one; then none was taken.

        Args:
            address: as `counted_address` gives it.
            now: seconds of a clock that never goes back.
        """
        if is_of_this_machine(address):
            return 0.0
        return self._buckets.use((address, ""), now).take(now)

    def spend(self, address: str, tenant: str, now: float, amount: float) -> None:
        """Spend tokens of a tenant's clients at an address. The bucket may fall below zero."""
        if not is_of_this_machine(address):
            self._buckets.use((address, tenant), now).spend(now, amount)

    def empty_for(self, address: str, tenant: str, now: float) -> float:
        """The seconds until a tenant's clients at an address have a token. 0.0: they have one."""
        bucket = self._buckets.find((address, tenant))
        return 0.0 if bucket is None else bucket.empty_for(now)
