"""evenflow-<env>-canary"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.functions.canary import Canary
from evenflow.infra.settings.canary_settings import CanarySettings
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class CanaryStack(cdk.Stack):
    """The canary, which needs the public address: it is deployed last."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        canary: CanarySettings,
        url: str,
        data: Data,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        Canary(
            self,
            "Canary",
            settings=settings,
            canary=canary,
            url=url,
            tenant_keys=data.secrets.tenant_keys,
            key=data.key,
        )
