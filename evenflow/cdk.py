"""The public names for a CDK app that has Evenflow in one of its stacks.

`from evenflow.cdk import EvenflowService`, installed as `evenflow[infra]`.
"""

from evenflow.infra.constructs.data.tables import Tables
from evenflow.infra.constructs.edge.firewall import Firewall
from evenflow.infra.constructs.front import CloudFront, ExistingListener, OnlyLoadBalancer
from evenflow.infra.evenflow_service import EvenflowService, service_settings
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.inference_settings import (
    BedrockSettings,
    FilterSettings,
    InferenceSettings,
    ModelPrice,
    SageMakerSettings,
)
from evenflow.infra.settings.observability_settings import (
    AlarmSettings,
    CanarySettings,
    TracingSettings,
)
from evenflow.infra.settings.regions import Region
from evenflow.infra.settings.stack_settings import (
    DataSettings,
    EdgeSettings,
    FirewallSettings,
    FunctionSettings,
    HandlerServiceSettings,
    HostedZone,
    NetworkSettings,
    ReservedConcurrency,
    WorkerServiceSettings,
)
from evenflow.stream_core.auth.oidc_settings import OidcSettings
from evenflow.stream_core.base.agents import Agent
from evenflow.stream_core.base.limits import Limits

__all__ = [
    "Agent",
    "AlarmSettings",
    "BedrockSettings",
    "CanarySettings",
    "CloudFront",
    "DataSettings",
    "EdgeSettings",
    "EnvironmentSettings",
    "EvenflowService",
    "ExistingListener",
    "FilterSettings",
    "Firewall",
    "FirewallSettings",
    "FunctionSettings",
    "HandlerServiceSettings",
    "HostedZone",
    "InferenceSettings",
    "Limits",
    "ModelPrice",
    "NetworkSettings",
    "OidcSettings",
    "OnlyLoadBalancer",
    "Region",
    "ReservedConcurrency",
    "SageMakerSettings",
    "Tables",
    "TracingSettings",
    "WorkerServiceSettings",
    "service_settings",
]
