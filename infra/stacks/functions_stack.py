"""evenflow-<env>-functions"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.functions.functions import Functions
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.stacks.data_stack import DataStack


class FunctionsStack(cdk.Stack):
    """The functions that open sessions, answer long polls, rotate the signing keys and write the
    files of usage.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: DataStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        self.functions = Functions(
            self, "Functions", settings=settings, data=data.data, usage_arn=data.usage_arn
        )
