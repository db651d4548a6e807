"""The four DynamoDB tables as CDK makes them, and the permissions to use them."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import removal_policy
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.stack_settings import NEW_TABLE_WRITES

# The names are those of `stream_aws/tables.py`, which infra must not import.
TTL_ATTRIBUTE = "expires_at"  # seconds since the epoch
# The heads of unfinished responses, by owner: other nodes find a lost node's responses there.
UNFINISHED_INDEX, UNFINISHED_KEY = "by-owner", "running"


@dataclass(frozen=True)
class Tables:
    """The tables, each with the attribute `expires_at` as its time to live.

    Args:
        sessions: its partition key is `channel`.
        ledger: `channel`, sorted by `message_id`.
        responses: `response_id`, sorted by `position`. Its index `by-owner` has the partition key
            `running`, and holds keys only.
        tenants: `tenant`, sorted by `row`. All keys are strings.
    """

    sessions: dynamodb.ITable
    ledger: dynamodb.ITable
    responses: dynamodb.ITable
    tenants: dynamodb.ITable


def table_name(settings: EnvironmentSettings, name: str) -> str:
    """The name of a table of our own: `evenflow-dev-tenants`."""
    return f"{settings.prefix}-{name.lower()}"


class OwnTables(Construct):
    """Tables that are paid by use, so a quiet environment costs nothing."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._key = key
        recovery_days = settings.data.recovery_days
        # The ledger has the texts. A backup would keep users' text beyond the buffer's day.
        responses = self._table("Responses", "response_id", "position", recovery_days=0)
        self.tables = Tables(
            sessions=self._table("Sessions", "channel", None, recovery_days),
            ledger=self._table("Ledger", "channel", "message_id", recovery_days),
            responses=responses,
            tenants=self._table("Tenants", "tenant", "row", settings.data.tenant_recovery_days),
        )
        self._warm(responses)
        responses.add_global_secondary_index(
            index_name=UNFINISHED_INDEX,
            partition_key=_string(UNFINISHED_KEY),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )

    def _table(
        self, name: str, partition: str, sort: str | None, recovery_days: int
    ) -> dynamodb.Table:
        data = self._settings.data
        table = dynamodb.Table(
            self,
            name,
            table_name=table_name(self._settings, name),
            partition_key=_string(partition),
            sort_key=_string(sort) if sort else None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=TTL_ATTRIBUTE,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED
            if self._key
            else dynamodb.TableEncryption.AWS_MANAGED,
            encryption_key=self._key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=recovery_days > 0,
                recovery_period_in_days=recovery_days or None,
            ),
            deletion_protection=data.keep,
            removal_policy=removal_policy(self._settings),
        )
        if not recovery_days:
            acknowledge(
                table,
                "DDB3",
                "a backup would keep users' text after its end; prod has one of conversations "
                "and tenants",
            )
        return table

    def _warm(self, table: dynamodb.Table) -> None:
        writes = self._settings.data.warm_writes_per_second
        if writes > NEW_TABLE_WRITES:
            resource = table.node.default_child
            assert isinstance(resource, dynamodb.CfnTable)  # noqa: S101 - what the L2 is made of
            resource.warm_throughput = dynamodb.CfnTable.WarmThroughputProperty(
                write_units_per_second=writes
            )


def allow_on_table(table: dynamodb.ITable, *actions: str) -> iam.PolicyStatement:
    """Allow actions on the table only. `Table.grant` would include all of its indexes."""
    return iam.PolicyStatement(actions=list(actions), resources=[table.table_arn])


def allow_query_of_unfinished(tables: Tables) -> iam.PolicyStatement:
    """Allow queries of the index of unfinished responses."""
    index = f"{tables.responses.table_arn}/index/{UNFINISHED_INDEX}"
    return iam.PolicyStatement(actions=["dynamodb:Query"], resources=[index])


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
