"""evenflow-<env>-data"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.data.buckets import RequestsArn, access_log_bucket, request_bucket
from infra.constructs.data.dead_letter_queue import dead_letter_queue
from infra.constructs.data.keys import KeySecrets, data_key
from infra.constructs.data.tables import Tables
from infra.settings import EnvironmentSettings


class DataStack(cdk.Stack):
    """What outlives a deployment: tables, secrets, buckets and the queue of dead letters."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        self.key = data_key(self, "Key", settings) if settings.data.customer_key else None
        self.tables = Tables(self, "Tables", settings=settings, key=self.key)
        self.dead_letters = dead_letter_queue(self, "DeadLetters", settings=settings, key=self.key)
        self.secrets = KeySecrets(self, "Secrets", settings=settings, key=self.key)
        self.access_logs = access_log_bucket(self, "AccessLogs", settings)
        self.requests = request_bucket(
            self, "Requests", settings=settings, key=self.key, access_logs=self.access_logs
        )
        # Under a name of our own, since the findings about it are acknowledged by name.
        name = f"{settings.prefix}-requests-arn"
        self.requests_arn = RequestsArn(
            name, self.export_value(self.requests.bucket_arn, name=name)
        )
