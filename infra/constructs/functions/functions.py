"""The functions and their HTTP API."""

from __future__ import annotations

from constructs import Construct

from evenflow.infra.constructs.data.buckets import BucketArn
from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.functions.key_rotation import KeyRotation
from evenflow.infra.constructs.functions.session_api import SessionApi
from evenflow.infra.constructs.functions.session_functions import PollResponse, SessionInit
from evenflow.infra.constructs.functions.usage_file import UsageFile
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class UpkeepFunctions(Construct):
    """The functions that no client calls: they rotate the signing keys and write files of usage."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: Data,
        usage_arn: BucketArn,
    ) -> None:
        super().__init__(scope, construct_id)
        KeyRotation(
            self,
            "KeyRotation",
            settings=settings,
            signing_keys=data.secrets.signing_keys,
            key=data.key,
        )
        self.usage_file = UsageFile(
            self, "UsageFile", settings=settings, data=data, usage_arn=usage_arn
        )


class Functions(UpkeepFunctions):
    """The upkeep, and the functions that open sessions and answer long polls, with an HTTP API."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: Data,
        usage_arn: BucketArn,
    ) -> None:
        super().__init__(scope, construct_id, settings=settings, data=data, usage_arn=usage_arn)
        tables, secrets, key = data.tables, data.secrets, data.key
        self.session_init = SessionInit(
            self, "SessionInit", settings=settings, tables=tables, secrets=secrets, key=key
        )
        self.poll_response = PollResponse(
            self, "PollResponse", settings=settings, tables=tables, secrets=secrets, key=key
        )
        self.http_api = SessionApi(
            self,
            "SessionApi",
            settings=settings,
            session_init=self.session_init.function,
            poll_response=self.poll_response.function,
        ).http_api
