"""The environments: dev is small and open, staging is a smaller prod, prod keeps its data."""

from __future__ import annotations

from infra.inference_settings import InferenceSettings
from infra.settings import EnvironmentSettings
from infra.stack_settings import (
    AlarmSettings,
    DataSettings,
    EdgeSettings,
    FunctionSettings,
    HandlerServiceSettings,
    NetworkSettings,
    ReservedConcurrency,
)
from stream_core.policy.limits import Limits
from stream_core.policy.memory_bound import MEBIBYTE


class UnknownEnvironmentError(Exception):
    """There are no settings of that name. The message lists those that there are."""


_DEV = EnvironmentSettings(
    name="dev",
    open_tenant=True,
    log_retention_days=7,
    network=NetworkSettings(cidr="10.20.0.0/16", zones=2, endpoint_zones=1, flow_logs=False),
    data=DataSettings(keep=False, customer_key=False, point_in_time_recovery=False),
    handler=HandlerServiceSettings(
        cpu=512,
        memory_mib=1_024,
        tasks_min=1,
        tasks_max=3,
        surge_load=((20, 1), (40, 2)),
        deployment_percent=200,
    ),
    functions=FunctionSettings(
        reserved_concurrency=None,
        throttle_rate=50,
        throttle_burst=100,
        session_rate=10,
        session_burst=20,
    ),
    edge=EdgeSettings(price_class="PRICE_CLASS_100"),
    inference=InferenceSettings(kind="demo"),
    limits=Limits(
        poll_timeout_max_ms=25_000,
        drain_seconds=105,
        connections_per_node=4_000,
        requests_per_node=1_000,
        responses_held_bytes=96 * MEBIBYTE,
        requests_held_bytes=64 * MEBIBYTE,
    ),
    alarms=AlarmSettings(quiet_frames_per_second=200),
)
_STAGING = EnvironmentSettings(
    name="staging",
    open_tenant=False,
    log_retention_days=30,
    network=NetworkSettings(cidr="10.30.0.0/16", zones=2, endpoint_zones=2, flow_logs=False),
    data=DataSettings(keep=False, customer_key=True, point_in_time_recovery=False),
    handler=HandlerServiceSettings(
        cpu=1_024,
        memory_mib=2_048,
        tasks_min=2,
        tasks_max=10,
        surge_load=((20, 2), (40, 4)),
        deployment_percent=150,
    ),
    functions=FunctionSettings(
        reserved_concurrency=ReservedConcurrency(session_init=20, poll_response=100),
        throttle_rate=200,
        throttle_burst=400,
        session_rate=50,
        session_burst=100,
    ),
    edge=EdgeSettings(price_class="PRICE_CLASS_100"),
    inference=InferenceSettings(kind="bedrock"),
)
_PROD = EnvironmentSettings(
    name="prod",
    open_tenant=False,
    log_retention_days=365,
    network=NetworkSettings(cidr="10.40.0.0/16", zones=3, endpoint_zones=3, flow_logs=True),
    data=DataSettings(keep=True, customer_key=True, point_in_time_recovery=True),
    handler=HandlerServiceSettings(
        cpu=1_024,
        memory_mib=2_048,
        tasks_min=3,
        tasks_max=60,
        surge_load=((20, 3), (40, 10)),
        deployment_percent=134,
        server_errors_per_minute=30,
        container_insights=True,
    ),
    functions=FunctionSettings(
        reserved_concurrency=ReservedConcurrency(session_init=100, poll_response=600),
        throttle_rate=1_000,
        throttle_burst=2_000,
        session_rate=100,
        session_burst=200,
    ),
    edge=EdgeSettings(price_class="PRICE_CLASS_ALL"),
    inference=InferenceSettings(kind="bedrock"),
)
ENVIRONMENTS = {settings.name: settings for settings in (_DEV, _STAGING, _PROD)}


def environment(name: str) -> EnvironmentSettings:
    """The settings of an environment.

    Raises:
        UnknownEnvironmentError: there is no environment of that name.
    """
    for settings in ENVIRONMENTS.values():
        if settings.name == name:
            return settings
    raise UnknownEnvironmentError(
        f"there is no environment {name!r}; choose one of {', '.join(ENVIRONMENTS)}: -c env=dev"
    )
