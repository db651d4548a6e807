"""Standard input, output and error of a process that was started without them."""

from __future__ import annotations

import os

_STANDARD = range(3)


def open_standard_descriptors() -> None:
    """Open /dev/null for each of the descriptors 0 to 2 that is closed.

    A script that starts a program with `<&-` closes one. The next socket would get its number:
    libuv aborts the process when that is closed, and what is printed would go into it.
    """
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that is missing. Child processes need it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
