"""evenflow-<env>-functions"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.data.data import Data
from infra.constructs.functions.functions import Functions
from infra.settings import EnvironmentSettings


class FunctionsStack(cdk.Stack):
    """The functions that open sessions, answer long polls and rotate the signing keys."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: Data,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        self.functions = Functions(self, "Functions", settings=settings, data=data)
