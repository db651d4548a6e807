"""Opens standard input, output and error in a process that was started without them."""

from __future__ import annotations

import os

_STANDARD = range(3)


def open_standard_descriptors() -> None:
    """Open /dev/null for each of the descriptors 0 to 2 that is closed.

    A script that starts a program with `<&-` closes one. The next socket would get its number:
    output would go into that socket, and libuv aborts the process when the socket is closed.
    """
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the missing one. It is inheritable for child processes.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
