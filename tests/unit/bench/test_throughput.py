"""How much a server delivers, by the clock and by its CPU."""

from __future__ import annotations

from bench.processes import Usage
from bench.throughput import Throughput


def test_a_core_that_is_half_idle_would_deliver_twice_as_much() -> None:
    usage = Usage(seconds=2.0, server=1.0, client=0.5, server_core=1.0, load_core=0.5)
    throughput = Throughput(30_000, usage)
    assert (throughput.per_second, throughput.per_core) == (15_000, 30_000)
    assert str(throughput) == "15,000 frames/s, CPU server 50 %, client 25 %"
    assert throughput.as_figures() == {
        "frames_per_second": 15_000,
        "frames_per_core_second": 30_000,
        "server_cpu_percent": 50.0,
        "client_cpu_percent": 25.0,
        "others_on_server_core_percent": 0.0,
        "others_on_load_core_percent": 0.0,
    }
