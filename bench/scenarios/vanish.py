"""A client that disappears without a word: how long until the server has closed and deregistered
it.

The client runs in a network namespace whose link is then taken down, so that its packets are lost
as they are when a phone leaves the network. Without root and iproute2 a stopped process stands in:
its kernel still acknowledges packets, but nothing answers a ping.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_network
from time import monotonic

from bench import targets
from bench.evenflow import ACTIVE_CONNECTIONS, Evenflow, evenflow
from bench.machine import LOAD_CORE
from bench.metrics_page import scrape
from bench.plan import Plan
from bench.report import Outcome, between
from bench.sessions import session_tokens

NETWORKS = ip_network("198.18.0.0/15")  # RFC 2544: reserved for benchmarks
POLL_SECONDS = 0.25
GIVE_UP_SECONDS = 100.0


async def measure(plan: Plan) -> Outcome:
    if os.geteuid() == 0 and shutil.which("ip"):
        plan.say("vanished client: in a network namespace, in the background")
        seconds = await _behind_a_cut_link()
        means = "link of its network namespace taken down"
    else:
        plan.say(
            "vanished client: stopped with SIGSTOP, in the background (a cut link needs root and "
            "iproute2)"
        )
        seconds = await _stopped()
        means = "SIGSTOP stands in for a cut link, which needs root and iproute2"
    plan.say(f"vanished client: deregistered after {seconds:.1f} s")
    row = between(
        "vanished client deregistered after", seconds, targets.VANISHED_SECONDS, "s", means
    )
    return Outcome("vanish", rows=[row], figures={"seconds": round(seconds, 2), "means": means})


async def _behind_a_cut_link() -> float:
    # The namespace reaches it by its link.
    async with evenflow(core=LOAD_CORE, http_host="0.0.0.0") as server:  # noqa: S104
        with _namespace() as (name, host_address):
            url = server.ws_url.replace("127.0.0.1", host_address)
            async with _client(["ip", "netns", "exec", name], url) as client:
                heard = await _last_heard(client)
                return await _deregistered(
                    server, heard, lambda: _ip("-n", name, "link", "set", name, "down")
                )


async def _stopped() -> float:
    async with evenflow(core=LOAD_CORE) as server, _client([], server.ws_url) as client:
        heard = await _last_heard(client)
        return await _deregistered(server, heard, lambda: client.send_signal(signal.SIGSTOP))


async def _deregistered(server: Evenflow, heard: float, cut: Callable[[], None]) -> float:
    """Seconds from the client's last sign of life until the gauge no longer counts it."""
    assert (await scrape(server.http_url)).value(ACTIVE_CONNECTIONS) == 1
    cut()
    while monotonic() < heard + GIVE_UP_SECONDS:
        if (await scrape(server.http_url)).value(ACTIVE_CONNECTIONS) == 0:
            return monotonic() - heard
        await asyncio.sleep(POLL_SECONDS)
    raise RuntimeError(f"still registered {GIVE_UP_SECONDS:.0f} s after it was last heard")


@contextmanager
def _namespace() -> Iterator[tuple[str, str]]:
    """A network namespace joined to this one by a pair of links: its name, which its link has
    too, and our address.
    """
    name = f"evb{os.getpid()}"
    host = f"{name}h"
    first = 4 * (
        os.getpid() % (NETWORKS.num_addresses // 4)
    )  # a network of four addresses that no other run has
    host_address, client_address = str(NETWORKS[first + 1]), str(NETWORKS[first + 2])
    _ip("netns", "add", name)
    try:
        _ip("link", "add", host, "type", "veth", "peer", "name", name, "netns", name)
        _ip("address", "add", f"{host_address}/30", "dev", host)
        _ip("link", "set", host, "up")
        _ip("-n", name, "address", "add", f"{client_address}/30", "dev", name)
        _ip("-n", name, "link", "set", name, "up")
        yield name, host_address
    finally:
        _ip("netns", "delete", name)  # and with it both ends of the pair


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@asynccontextmanager
async def _client(prefix: Sequence[str], url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [*prefix, sys.executable, "-m", "bench.lone_client", url, *session_tokens(1)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def _last_heard(client: asyncio.subprocess.Process) -> float:
    assert client.stdout
    return float(await client.stdout.readline())
