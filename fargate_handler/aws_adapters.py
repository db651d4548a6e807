"""The adapters to AWS, and their clients."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
from aiobotocore.session import get_session
from botocore.exceptions import NoRegionError

from evenflow.fargate_handler.adapters import ECS_AGENT, ECS_METADATA, Adapters, Stores, own_stores
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_aws.dynamodb import client_config as dynamodb_config
from evenflow.stream_aws.dynamodb_kept_bytes import DynamoDBKeptBytes
from evenflow.stream_aws.dynamodb_node_reports import DynamoDBNodeReports
from evenflow.stream_aws.dynamodb_response_store import DynamoDBResponseStore
from evenflow.stream_aws.dynamodb_session_store import DynamoDBSessionStore
from evenflow.stream_aws.dynamodb_tenant_store import DynamoDBTenantStore
from evenflow.stream_aws.dynamodb_usage_store import DynamoDBUsageStore
from evenflow.stream_aws.ecs_task import CLIENT_CONFIG as ECS_CONFIG
from evenflow.stream_aws.ecs_task import EcsTask, TaskProtection
from evenflow.stream_aws.key_secret import CLIENT_CONFIG as SECRETS_CONFIG
from evenflow.stream_aws.key_secret import Keys, KeySecret
from evenflow.stream_aws.keys import KeysUnreadable, parse_signing_keys, parse_tenant_keys
from evenflow.stream_aws.metric_publication import CLIENT_CONFIG as CLOUDWATCH_CONFIG
from evenflow.stream_aws.metric_publication import CloudWatchPublisher, MetricPublication
from evenflow.stream_aws.s3_large_texts import CLIENT_CONFIG as S3_CONFIG
from evenflow.stream_aws.s3_large_texts import S3LargeTexts
from evenflow.stream_aws.sqs_dead_letters import CLIENT_CONFIG as SQS_CONFIG
from evenflow.stream_aws.sqs_dead_letters import SqsDeadLetters
from evenflow.stream_aws.tables import TableNames
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.dead_letters import DeadLetters, LoggedDeadLetters
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT

_logger = logging.getLogger(__name__)

# Concurrent requests: those of the recorder, and several times as many for acceptance.
_DYNAMODB_CONNECTIONS = 64
_LEASE_CONNECTIONS = 4


@asynccontextmanager
async def open_aws_adapters(settings: HandlerSettings, metrics: Metrics) -> AsyncIterator[Adapters]:
    """Open the adapters of a node that uses AWS. They are closed at the end.

    Raises:
        ConfigurationError: keys can't be read, or the store can't be opened.
    """
    async with _Clients() as clients:
        signing_keys = await _secret(settings.token_keys_secret, parse_signing_keys, clients)
        tenant_keys = await _secret(settings.tenant_keys_secret, parse_tenant_keys, clients)
        stores = await _stores(settings, metrics, clients)
        own_keys = settings.signing_keys_beside(stores.signing_key)
        ecs_task = await _ecs_task(clients)
        host = ecs_task.host if ecs_task is not None else None
        yield Adapters(
            signing_keys=await _read("token_keys_secret", signing_keys, settings, own_keys),
            signing_key_secret=signing_keys,
            tenant_keys=await _read(
                "tenant_keys_secret", tenant_keys, settings, settings.keys_of_tenants
            ),
            tenant_key_secret=tenant_keys,
            stores=stores,
            publication=await _publication(settings, metrics, clients),
            ecs_task=ecs_task,
            task_protection=TaskProtection(os.environ[ECS_AGENT])
            if ECS_AGENT in os.environ
            else None,
            peer_address=None if host is None else f"http://{host}:{settings.http_port}",
        )


async def read_signing_keys(settings: HandlerSettings) -> dict[str, bytes]:
    """The signing keys of EVENFLOW_TOKEN_KEYS_SECRET.

    Raises:
        ConfigurationError: they can't be read.
    """
    async with _Clients() as clients:
        secret = await _secret(settings.token_keys_secret, parse_signing_keys, clients)
        return await _read("token_keys_secret", secret, settings, settings.signing_keys)


class _Clients(AsyncExitStack):
    """Clients that share a session of the SDK, which reads its service descriptions once."""

    def __init__(self) -> None:
        super().__init__()
        self._sdk = get_session()

    async def open(self, service: str, **options: Any) -> Any:
        """A client of `service`. It is closed with the others."""
        # The SDK itself reads AWS_DEFAULT_REGION and the profile. ECS sets AWS_REGION.
        region = os.environ.get("AWS_REGION")
        try:
            return await self.enter_async_context(
                self._sdk.create_client(service, region_name=region, **options)
            )
        except NoRegionError:
            raise ConfigurationError(f"AWS_REGION must be set: the region of {service}") from None


async def _secret(
    secret_id: str | None, parse: Callable[[str], Keys], clients: _Clients
) -> KeySecret[Keys] | None:
    if secret_id is None:
        return None
    return KeySecret(await clients.open("secretsmanager", config=SECRETS_CONFIG), secret_id, parse)


async def _read(
    setting: str, secret: KeySecret[Keys] | None, settings: HandlerSettings, default: Keys
) -> Keys:
    """The keys of the secret that `setting` names. Without a secret, `default`."""
    if secret is None:
        return default
    try:
        return await secret.read()
    except KeysUnreadable as error:
        raise ConfigurationError(
            f"EVENFLOW_{setting.upper()}={getattr(settings, setting)}: {error}"
        ) from error


async def _stores(settings: HandlerSettings, metrics: Metrics, clients: _Clients) -> Stores:
    if settings.store != "dynamodb":
        return clients.enter_context(own_stores(settings))
    client = await clients.open("dynamodb", config=dynamodb_config(_DYNAMODB_CONNECTIONS))
    retries = metrics.counter(catalogue.STORE_RETRIES)

    def on_retry() -> None:
        retries.value += 1

    tables = TableNames(
        sessions=str(settings.sessions_table),
        ledger=str(settings.ledger_table),
        responses=str(settings.responses_table),
        tenants=settings.tenants_table,
    )
    kept_bytes = (
        None
        if tables.tenants is None
        else DynamoDBKeptBytes(client, tables.tenants, on_retry, settings.store_bytes)
    )
    return Stores(
        sessions=DynamoDBSessionStore(
            client, tables, on_retry, settings.session_ttl_seconds, kept_bytes
        ),
        responses=DynamoDBResponseStore(client, tables.responses, on_retry),
        leases=DynamoDBResponseStore(
            await clients.open("dynamodb", config=dynamodb_config(_LEASE_CONNECTIONS)),
            tables.responses,
            on_retry,
        ),
        dead_letters=await _dead_letters(settings, clients),
        large_texts=await _large_texts(settings, clients),
        usage=None
        if tables.tenants is None
        else DynamoDBUsageStore(client, tables.tenants, on_retry, settings.usage_ttl_seconds),
        tenants=None
        if tables.tenants is None
        else DynamoDBTenantStore(client, tables.tenants, on_retry),
        longest_answer=LARGEST_ITEM_TEXT,
        outlives_process=True,
        node_reports=None
        if settings.tenants_table is None
        else DynamoDBNodeReports(client, settings.tenants_table, on_retry),
        unreachable=(
            "EVENFLOW_STORE=dynamodb: the tables can't be reached; check the network and AWS_REGION"
        ),
        unusable=(
            "EVENFLOW_RESPONSES_TABLE, EVENFLOW_SESSIONS_TABLE, EVENFLOW_LEDGER_TABLE or "
            "EVENFLOW_TENANTS_TABLE can't be used; check their names and the task's role"
        ),
    )


async def _dead_letters(settings: HandlerSettings, clients: _Clients) -> DeadLetters:
    if settings.dead_letters_queue is None:
        return LoggedDeadLetters()
    return SqsDeadLetters(
        await clients.open("sqs", config=SQS_CONFIG), str(settings.dead_letters_queue)
    )


async def _large_texts(settings: HandlerSettings, clients: _Clients) -> S3LargeTexts | None:
    if settings.requests_bucket is None:
        return None
    return S3LargeTexts(await clients.open("s3", config=S3_CONFIG), settings.requests_bucket)


async def _publication(
    settings: HandlerSettings, metrics: Metrics, clients: _Clients
) -> MetricPublication | None:
    if settings.metrics == "prometheus":
        return None
    client = await clients.open("cloudwatch", config=CLOUDWATCH_CONFIG)
    return MetricPublication(
        CloudWatchPublisher(client, settings.metrics_environment), metrics.snapshot()
    )


async def _ecs_task(clients: _Clients) -> EcsTask | None:
    metadata_uri = os.environ.get(ECS_METADATA)
    if metadata_uri is None:
        return None
    client = await clients.open("ecs", config=ECS_CONFIG)
    try:
        return await EcsTask.own(client, metadata_uri)
    except (aiohttp.ClientError, OSError, TimeoutError, KeyError) as error:
        _logger.warning(
            "the task's metadata can't be read (%s): this task leaves only by SIGTERM", error
        )
        return None
