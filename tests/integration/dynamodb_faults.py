"""What can be made to happen to a request of DynamoDB, on command."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from enum import Enum, auto


class Fault(Enum):
    """What happens to a request instead of its answer, or before it."""

    THROTTLED = auto()
    """HTTP 400: ProvisionedThroughputExceededException, or a transaction that is cancelled for
    ThrottlingError. Nothing was done.
    """
    HOT_PARTITION = auto()
    """HTTP 400: ThrottlingException, or a transaction that is cancelled for
    ProvisionedThroughputExceeded. Nothing was done.
    """
    CONFLICT = auto()
    """A write meets a transaction that isn't over: TransactionConflictException, or a transaction
    that is cancelled for TransactionConflict. Nothing was done. Reads don't meet any.
    """
    UNPROCESSED = auto()
    """BatchWriteItem hands back about half of the writes, at least one, as UnprocessedItems.
    BatchGetItem so keeps keys, as UnprocessedKeys.
    """
    INTERNAL_ERROR = auto()
    """HTTP 500 InternalServerError; nothing was done."""
    BARE_503 = auto()
    """HTTP 503 with a page of HTML, as a front end gives it; nothing was done."""
    DELAYED = auto()
    """Done and answered `seconds` later, and done also when the caller has given up meanwhile."""
    RESET_BEFORE = auto()
    """The connection is reset; nothing was done."""
    RESET_AFTER = auto()
    """It was done, but the connection is reset before the answer: the caller can't know."""


WRITES = frozenset({"TransactWriteItems", "PutItem", "UpdateItem", "DeleteItem"})
"""The operations that can meet a transaction."""


@dataclass
class Injection:
    """A fault in force: for these operations (all when empty) whose request has `wording` in it,
    this share of them, at most `times` of them.
    """

    fault: Fault
    operations: frozenset[str]
    wording: bytes = b""
    share: float = 1.0
    times: int | None = None
    seconds: float = 0.0

    def applies(self, operation: str, body: bytes, dice: random.Random) -> bool:
        """Whether it strikes this request; counts it down if so."""
        meant = (not self.operations or operation in self.operations) and self.wording in body
        meant = meant and (self.fault is not Fault.CONFLICT or operation in WRITES)
        if self.times == 0 or not meant or dice.random() >= self.share:
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class HeldRequest:
    """The next request of an operation that has `wording` in it, held before it is done. Await
    `reached`, then set `released`.
    """

    operation: str
    wording: bytes
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
