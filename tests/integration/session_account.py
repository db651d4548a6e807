"""What session_init has of AWS, in the emulator."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from evenflow.stream_aws.tenant_items import change
from evenflow.stream_core.tenants.tenant import Tenant
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.http_api_event import EDGE_KEY
from tests.integration.lambda_function import LambdaFunction

SIGNING_KEY = "signing-key-0123456789-0123456789-0123456789"


class Account:
    """Secrets and tables of one environment in the emulator, and functions that are told of
    them.
    """

    def __init__(self, aws: AwsEmulator, tenants: Mapping[str, str]) -> None:
        prefix = f"test-{uuid.uuid4().hex[:8]}"
        self.aws = aws
        self.secrets = aws.client("secretsmanager")
        self.dynamodb = aws.client("dynamodb")
        tables = aws.create_tables(prefix)
        self.sessions, self.tenants = tables.sessions, str(tables.tenants)
        self.edge_keys = self._secret(f"{prefix}-edge", {"k1": EDGE_KEY})
        self.token_keys = self._secret(f"{prefix}-tokens", {"k1": SIGNING_KEY})
        self.tenant_keys = self._secret(f"{prefix}-tenants", tenants)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of session_init."""
        return self.aws.environment | {
            "EVENFLOW_EDGE_KEYS_SECRET": self.edge_keys,
            "EVENFLOW_TOKEN_KEYS_SECRET": self.token_keys,
            "EVENFLOW_TENANT_KEYS_SECRET": self.tenant_keys,
            "EVENFLOW_SESSIONS_TABLE": self.sessions,
            "EVENFLOW_TENANTS_TABLE": self.tenants,
            "EVENFLOW_OPEN_TENANT": "public",
            "EVENFLOW_MODEL": "demo",
            "POWERTOOLS_SERVICE_NAME": "session_init",
        }

    def session_init(self, **variables: str) -> LambdaFunction:
        """The function."""
        return LambdaFunction("session_init", self.environment | variables)

    def row(self, channel: str) -> dict[str, Any] | None:
        """A session's row."""
        answer = self.dynamodb.get_item(
            TableName=self.sessions, Key={"channel": {"S": channel}}, ConsistentRead=True
        )
        item: dict[str, Any] | None = answer.get("Item")
        return item

    def change_tenant(self, tenant_id: str, record: Tenant | None, revision: int) -> None:
        """What an administrator does who has seen this revision."""
        stored = record or Tenant(id=tenant_id, removed=True)
        actions = change(self.tenants, stored, revision)
        self.dynamodb.transact_write_items(TransactItems=actions)

    def _secret(self, name: str, value: Mapping[str, str]) -> str:
        arn: str = self.secrets.create_secret(Name=name, SecretString=json.dumps(value))["ARN"]
        return arn
