"""evenflow-<env>-functions"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.functions.key_rotation import KeyRotation
from infra.constructs.functions.session_api import SessionApi
from infra.constructs.functions.session_functions import PollResponse, SessionInit
from infra.settings import EnvironmentSettings
from infra.stacks.data_stack import DataStack


class FunctionsStack(cdk.Stack):
    """The functions that open sessions, answer long polls and rotate the signing keys."""

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
        tables, secrets, key = data.tables, data.secrets, data.key
        session_init = SessionInit(
            self, "SessionInit", settings=settings, tables=tables, secrets=secrets, key=key
        )
        poll_response = PollResponse(
            self, "PollResponse", settings=settings, tables=tables, secrets=secrets, key=key
        )
        KeyRotation(
            self, "KeyRotation", settings=settings, signing_keys=secrets.signing_keys, key=key
        )
        self.session_api = SessionApi(
            self,
            "SessionApi",
            settings=settings,
            session_init=session_init.function,
            poll_response=poll_response.function,
        )
