"""The environments: dev is small and open, staging is a smaller prod, prod keeps its data.

Any of their settings can be changed without a change of this file (docs/aws.md).
"""

from __future__ import annotations

from pydantic import ValidationError

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.inference_settings import BedrockSettings, InferenceSettings
from evenflow.infra.settings.observability_settings import AlarmSettings, CanarySettings
from evenflow.infra.settings.regions import Region, region_named
from evenflow.infra.settings.setting_paths import WrongSettingError, reasons, set_by_path
from evenflow.infra.settings.stack_settings import (
    DataSettings,
    EdgeSettings,
    FirewallSettings,
    FunctionSettings,
    HandlerServiceSettings,
    NetworkSettings,
    ReservedConcurrency,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_bound import MEBIBYTE


class UnknownEnvironmentError(Exception):
    """No environment has that name. The message lists the environments."""


_DEV = EnvironmentSettings(
    name="dev",
    open_tenant=True,
    log_retention_days=7,
    network=NetworkSettings(cidr="10.20.0.0/16", zones=2, endpoint_zones=0, flow_logs=False),
    data=DataSettings(keep=False, customer_key=False),
    handler=HandlerServiceSettings(
        cpu=256,
        memory_mib=1_024,
        tasks_min=1,
        tasks_max=3,
        surge_load=((20, 1), (40, 2)),
        deployment_percent=200,
    ),
    functions=FunctionSettings(
        reserved_concurrency=None,
        throttle_rate=300,
        throttle_burst=600,
        session_rate=200,
        session_burst=400,
    ),
    edge=EdgeSettings(price_class="PRICE_CLASS_100"),
    inference=InferenceSettings(kind="demo"),
    limits=Limits(
        poll_timeout_max_ms=25_000,
        drain_seconds=105,
        connections_per_node=4_000,
        requests_per_node=1_000,
        responses_held_bytes=80 * MEBIBYTE,
        requests_held_bytes=64 * MEBIBYTE,
    ),
    alarms=AlarmSettings(quiet_frames_per_second=200),
)
_STAGING = EnvironmentSettings(
    name="staging",
    open_tenant=False,
    log_retention_days=30,
    network=NetworkSettings(cidr="10.30.0.0/16", zones=2, endpoint_zones=2, flow_logs=False),
    data=DataSettings(keep=False, customer_key=True),
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
    edge=EdgeSettings(price_class="PRICE_CLASS_100", firewall=FirewallSettings(polls=120)),
    inference=InferenceSettings(kind="bedrock"),
    canary=CanarySettings(),
)
_PROD = EnvironmentSettings(
    name="prod",
    open_tenant=False,
    log_retention_days=365,
    network=NetworkSettings(cidr="10.40.0.0/16", zones=3, endpoint_zones=3, flow_logs=True),
    data=DataSettings(
        keep=True,
        customer_key=True,
        recovery_days=1,
        tenant_recovery_days=35,
        warm_writes_per_second=7_000,
    ),
    handler=HandlerServiceSettings(
        cpu=1_024,
        memory_mib=2_048,
        tasks_min=3,
        tasks_max=60,
        surge_load=((20, 3), (40, 10)),
        deployment_percent=134,
        server_errors_per_minute=30,
    ),
    functions=FunctionSettings(
        reserved_concurrency=ReservedConcurrency(session_init=100, poll_response=600),
        throttle_rate=1_000,
        throttle_burst=2_000,
        session_rate=100,
        session_burst=200,
    ),
    edge=EdgeSettings(price_class="PRICE_CLASS_ALL", firewall=FirewallSettings()),
    inference=InferenceSettings(kind="bedrock"),
    canary=CanarySettings(),
)
ENVIRONMENTS = {settings.name: settings for settings in (_DEV, _STAGING, _PROD)}


def environment(name: str, /, **changes: object) -> EnvironmentSettings:
    """The settings of an environment.

    Args:
        changes: settings to change, by their path, such as `installation` or `edge.domain_name`.
            `region` is a name in the table of regions, or a Region. An empty text changes nothing.

    Raises:
        UnknownEnvironmentError: there is no environment of that name.
        UnknownRegionError: the table of regions has no such one.
        WrongSettingError: a setting doesn't exist, or can't have that value.
    """
    if name not in ENVIRONMENTS:
        raise UnknownEnvironmentError(
            f"there is no environment {name!r}; choose one of {', '.join(ENVIRONMENTS)}: -c env=dev"
        )
    overrides = {path: value for path, value in changes.items() if value != ""}
    data = ENVIRONMENTS[name].model_dump()
    try:
        if region := overrides.pop("region", None):
            data |= _in_region(ENVIRONMENTS[name], region)
        for path, value in overrides.items():
            set_by_path(EnvironmentSettings, data, path, value)
        settings = EnvironmentSettings.model_validate(data)
    except ValidationError as error:
        raise WrongSettingError(f"{name}: {reasons(error)}") from error
    if (
        settings.open_tenant
        and settings.inference.kind != "demo"
        and "open_tenant" not in overrides
    ):
        raise WrongSettingError(
            f"{name} lets anybody open sessions, and {settings.inference.kind} costs money: set "
            "open_tenant=false, or open_tenant=true if that is meant"
        )
    return settings


def _in_region(settings: EnvironmentSettings, override: object) -> dict[str, object]:
    """The settings that depend on the region: itself, and the model's profile."""
    region = (
        region_named(override) if isinstance(override, str) else Region.model_validate(override)
    )
    bedrock = _profile_in(settings.inference.bedrock, region)
    inference = settings.inference.model_copy(update={"bedrock": bedrock})
    return {"region": region.model_dump(), "inference": inference.model_dump()}


def _profile_in(bedrock: BedrockSettings, region: Region) -> BedrockSettings:
    """The same model's profile in the region's geography."""
    geography, _, model = bedrock.inference_profile.partition(".")
    if region.geography in (geography, ""):
        return bedrock
    return bedrock.model_copy(
        update={
            "inference_profile": f"{region.geography}.{model}",
            "regions": region.model_regions,
        }
    )
