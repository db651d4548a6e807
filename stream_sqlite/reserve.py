"""The room on the disk that messages may not take, part of it in a file that can be deleted."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 4_194_304
"""The size of the file beside the database: enough to start, and to delete what has expired."""

# Free bytes that messages may not take, and at most this part of a small disk.
_MARGIN_BYTES = 16_777_216
_LARGEST_MARGIN_PART = 8


class Reserve:
    """Keeps a part of the disk for the store itself.

    Messages are refused before they take it, so that running answers are written and settled to
    their end. If other programs fill the disk, the reserve's file is deleted. That is room to
    start, to delete what has expired, and to settle what has ended.

    Args:
        database: the file of the stores.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}-reserve")

    def room(self) -> int:
        """Bytes of the disk that messages may take. Less than 0: the reserve is being used.

        Raises:
            OSError: the folder is gone.
        """
        disk = os.statvfs(self._path.parent)
        margin = min(_MARGIN_BYTES, disk.f_blocks * disk.f_frsize // _LARGEST_MARGIN_PART)
        return disk.f_bavail * disk.f_frsize - margin - (RESERVE_BYTES - self._bytes())

    def allocate(self) -> bool:
        """Make the file, if there is none and the disk has room. Returns whether the file is there.

        Raises:
            OSError: it can't be made.
        """
        if self._bytes():
            return True
        if self.room() < 0:
            return False
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _allocate(descriptor)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return True

    def release(self, needed: int) -> bool:
        """Delete the file if fewer bytes than `needed` are free. Returns whether it was deleted."""
        with suppress(OSError):
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < needed and self._bytes():
                self._path.unlink()
                return True
        return False

    def _bytes(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    else:
        os.write(descriptor, bytes(RESERVE_BYTES))
