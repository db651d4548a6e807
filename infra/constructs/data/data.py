"""Everything that is kept: tables, secrets, buckets and the queue of dead letters."""

from __future__ import annotations

from constructs import Construct

from evenflow.infra.constructs.data.buckets import access_log_bucket, request_bucket, usage_bucket
from evenflow.infra.constructs.data.dead_letter_queue import dead_letter_queue
from evenflow.infra.constructs.data.keys import KeySecrets, data_key
from evenflow.infra.constructs.data.tables import OwnTables, Tables
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class Data(Construct):
    """What outlives a deployment.

    Args:
        tables: those that are there already. None: tables of our own.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        tables: Tables | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.key = data_key(self, "Key", settings) if settings.data.customer_key else None
        # The key for new data. Roles may use an existing key in any case.
        key = self.key if settings.data.customer_key is True else None
        self.tables = tables or OwnTables(self, "Tables", settings=settings, key=key).tables
        self.dead_letters = dead_letter_queue(self, "DeadLetters", settings=settings, key=key)
        self.secrets = KeySecrets(self, "Secrets", settings=settings, key=key)
        self.access_logs = access_log_bucket(self, "AccessLogs", settings)
        self.requests = request_bucket(
            self, "Requests", settings=settings, key=key, access_logs=self.access_logs
        )
        self.usage = usage_bucket(
            self, "Usage", settings=settings, key=key, access_logs=self.access_logs
        )
