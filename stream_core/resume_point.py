"""Where a reader that comes back goes on, so that it gets each entry exactly once, whoever owns the response now."""

from __future__ import annotations

from dataclasses import dataclass

from stream_core.response_log import ResponseLog, Restart

EVERYTHING = -1
"""The `from_index` of a restart that replaces all of the text, and the `after` of a reader that has none of it."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The next index to deliver.

    `restarted`: told before that, it replaces everything that the reader holds. It is no entry of the log: its index is
    `EVERYTHING`.
    """

    next_index: int
    restarted: Restart | None = None


def resume_point(log: ResponseLog, after: int, epoch: int | None) -> ResumePoint | None:
    """Where a reader goes on that holds everything up to `after`; None where the log doesn't tell yet.

    What an owner delivered and did not get on record before it was lost, the next owner writes anew under the same
    indexes. A reader that holds such entries begins again, since it can't cut them out of a frame that joined several.

    Args:
        after: the last index that the reader holds, -1 for none.
        epoch: the newest that it was told of; None when it doesn't say. Then it can't be told whether what it holds behind
            the beginning of a later owner is of that one, and it begins again.
    """
    if epoch is not None and epoch > log.epoch_at(log.next_index):
        return None  # it knows a later owner than this copy does, which may be one that was lost and hasn't noticed
    later_owner_begins_at = log.first_index_after(epoch if epoch is not None else 1)
    if later_owner_begins_at is not None and later_owner_begins_at <= after:
        return _from_the_beginning(log)
    if after < log.next_index:
        return ResumePoint(after + 1)
    return None  # it is ahead of this copy of the log


def _from_the_beginning(log: ResponseLog) -> ResumePoint:
    markers = [entry for entry in log.entries if isinstance(entry, Restart)]
    attempt = markers[-1].attempt if markers else 1
    return ResumePoint(0, Restart(EVERYTHING, attempt, log.epoch_at(log.next_index)))
