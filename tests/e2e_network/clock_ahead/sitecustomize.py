"""What Python loads when it starts: its wall clock is ahead by CLOCK_AHEAD_SECONDS."""

import os
import time

_AHEAD = float(os.environ["CLOCK_AHEAD_SECONDS"])
_wall = time.time


def _ahead() -> float:
    return _wall() + _AHEAD


time.time = _ahead
