"""`python -m tests.differential --streams 20000`: streams of model servers, read by stock clients.

Each client reads each stream directly and through Evenflow. It ends at the first difference that
is not on the list of those that are wanted (`comparison.py`), and says how to make it again.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random, randrange

from tests.differential.clients import Client, PythonClient, javascript_client, litellm_client
from tests.differential.comparison import compared
from tests.differential.over_http import compared_over_http
from tests.differential.streams import UpstreamStream, upstream_stream

_CLIENTS = ("python", "javascript", "litellm")


def stream_of(seed: int, number: int) -> UpstreamStream:
    """The stream with this number."""
    return upstream_stream(Random(f"{seed}.{number}"))


def _clients(names: Sequence[str], opened: ExitStack) -> list[Client]:
    clients: list[Client] = []
    if "python" in names:
        clients.append(PythonClient())
    if "javascript" in names:
        clients.append(opened.enter_context(javascript_client()))
    if "litellm" in names:
        clients.append(opened.enter_context(litellm_client()))
    return clients


def _run(options: argparse.Namespace, seen: Counter[str]) -> list[str]:
    """Compare streams until there is a difference, or no time, or no stream is left."""
    give_up_at = time.monotonic() + options.seconds
    with ExitStack() as opened:
        clients = _clients(options.clients, opened)
        for number in range(options.first, options.first + options.streams):
            stream = stream_of(options.seed, number)
            if found := compared(clients, stream, seen):
                return _told(options.seed, number, stream, found)
            if time.monotonic() > give_up_at:
                break
    return []


def _told(seed: int, number: int, stream: UpstreamStream, found: list[str]) -> list[str]:
    traits = ", ".join(sorted(stream.traits)) or "nothing"
    again = f"--seed {seed} --first {number} --streams 1"
    return [*found, f"odd: {traits}", stream.body.decode("utf-8", "replace")[:6_000], again]


def main() -> int:
    """Run. Returns the exit status: 1 if there is a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--streams", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=randrange(1_000_000))
    parser.add_argument("--first", type=int, default=0, help="number of the first stream")
    parser.add_argument("--over-http", type=int, default=0, help="streams through a real server")
    parser.add_argument("--clients", nargs="+", choices=_CLIENTS, default=_CLIENTS)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # each stream that can't be read has its line
    print(f"seed {options.seed}", flush=True)
    began, seen = time.monotonic(), Counter[str]()
    found = _run(options, seen)
    if not found and options.over_http:
        streams = (stream_of(options.seed, number) for number in range(options.over_http))
        found = compared_over_http(streams, seen)
    for line in found:
        print(line)
    print(f"{time.monotonic() - began:.0f} s:", *(f"{n} {what};" for what, n in seen.most_common()))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
