"""What a CDK app needs to have Evenflow in a stack of its own.

`from evenflow.cdk import EvenflowService`, installed as `evenflow[infra]`.
"""

from evenflow.infra.constructs.data.tables import Tables
from evenflow.infra.constructs.edge.firewall import Firewall
from evenflow.infra.constructs.front import CloudFront, ExistingListener, OnlyLoadBalancer
from evenflow.infra.evenflow_service import EvenflowService
from evenflow.infra.settings.canary_settings import CanarySettings
from evenflow.infra.settings.filter_settings import FilterSettings
from evenflow.infra.settings.inference_settings import (
    BedrockSettings,
    InferenceSettings,
    ModelPrice,
    SageMakerSettings,
)
from evenflow.infra.settings.regions import Region
from evenflow.infra.settings.stack_settings import (
    AlarmSettings,
    DataSettings,
    FirewallSettings,
    FunctionSettings,
    HandlerServiceSettings,
    ReservedConcurrency,
    WorkerServiceSettings,
)
from evenflow.infra.settings.tracing_settings import TracingSettings
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
    "EvenflowService",
    "ExistingListener",
    "FilterSettings",
    "Firewall",
    "FirewallSettings",
    "FunctionSettings",
    "HandlerServiceSettings",
    "InferenceSettings",
    "Limits",
    "ModelPrice",
    "OidcSettings",
    "OnlyLoadBalancer",
    "Region",
    "ReservedConcurrency",
    "SageMakerSettings",
    "Tables",
    "TracingSettings",
    "WorkerServiceSettings",
]
