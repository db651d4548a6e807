"""What the canary finds at a front door, through its real function: it raises the canary's alarms.

The function publishes by a log line, which no emulator makes metrics of: `embedded_metric_format`
does.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from itertools import count

import pytest

from evenflow.functions.canary.reading import Stopwatch
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.canary_function import KEY, CanaryFunction
from tests.integration.conftest import Serve
from tests.integration.faulty_proxy import Fault, faulty_proxy
from tests.integration.published_minutes import WINDOW_MINUTES, Service, published
from tests.integration.server_process import free_port
from tests.integration.synthesized_alarms import named

_ENVIRONMENT = "staging"  # dev has no canary
_BEGIN = WINDOW_MINUTES - 5  # of what the alarms look at


@pytest.fixture(scope="module")
def canary(emulated_aws: AwsEmulator) -> CanaryFunction:
    return CanaryFunction(emulated_aws, f"evenflow-{_ENVIRONMENT}")


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with published() as service:
        yield service


async def ask(service: Service, canary: CanaryFunction, url: str, minutes: range) -> None:
    """The canary asks once in each of these minutes."""
    for minute in minutes:
        request, _ = await canary.call(url)
        data = [
            datum | {"Timestamp": service.begins + 60 * minute} for datum in request["MetricData"]
        ]
        await service.client.put_metric_data(Namespace=request["Namespace"], MetricData=data)


async def raised(service: Service) -> set[str]:
    alarms = named(_ENVIRONMENT)
    return await service.raised(
        {name: alarm for name, alarm in alarms.items() if name.startswith("canary.")}
    )


@pytest.fixture
async def front_door(serve: Serve) -> str:
    server = await serve(tenant_keys=json.dumps({"public": KEY}))
    return server.http_url


@pytest.mark.parametrize(("closed", "expected"), [(2, set()), (3, {"canary.failures"})])
async def test_a_front_door_where_nobody_answers(
    closed: int, expected: set[str], service: Service, canary: CanaryFunction, front_door: str
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    await ask(service, canary, front_door, range(_BEGIN, WINDOW_MINUTES - closed))
    await ask(service, canary, nobody, range(WINDOW_MINUTES - closed, WINDOW_MINUTES))
    assert await raised(service) == expected


async def test_a_front_door_that_drops_upgrades(
    service: Service, canary: CanaryFunction, serve: Serve
) -> None:
    server = await serve(tenant_keys=json.dumps({"public": KEY}))
    async with faulty_proxy(server.port, Fault.DROPS_UPGRADES) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        await ask(service, canary, url, range(_BEGIN, WINDOW_MINUTES))
    assert await raised(service) == {"canary.failures"}


@pytest.mark.parametrize(("slow", "expected"), [(4, set()), (5, {"canary.first_text_ms"})])
async def test_first_texts_that_come_late(
    slow: int,
    expected: set[str],
    service: Service,
    canary: CanaryFunction,
    front_door: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await ask(service, canary, front_door, range(_BEGIN, WINDOW_MINUTES - slow))
    # Each time that it looks at its watch, eleven seconds have passed.
    stopwatch = partial(Stopwatch, partial(next, count(0.0, 11.0)))
    monkeypatch.setattr("evenflow.functions.canary.smoke.Stopwatch", stopwatch)
    await ask(service, canary, front_door, range(WINDOW_MINUTES - slow, WINDOW_MINUTES))
    assert await raised(service) == expected


async def test_a_canary_that_does_not_run(service: Service) -> None:
    assert await raised(service) == {"canary.failures"}
