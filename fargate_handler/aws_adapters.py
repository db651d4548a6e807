"""The adapters to AWS, with their clients."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
from aiobotocore.session import get_session
from botocore.exceptions import NoRegionError

from fargate_handler.adapters import ECS_AGENT, ECS_METADATA, Adapters, Stores
from fargate_handler.metrics import Metrics
from fargate_handler.settings import ConfigurationError, HandlerSettings
from stream_aws.cloudwatch_publisher import CLIENT_CONFIG as CLOUDWATCH_CONFIG
from stream_aws.cloudwatch_publisher import CloudWatchPublisher
from stream_aws.dynamodb import client_config as dynamodb_config
from stream_aws.dynamodb_response_store import DynamoDBResponseStore
from stream_aws.dynamodb_session_store import DynamoDBSessionStore
from stream_aws.ecs_task import CLIENT_CONFIG as ECS_CONFIG
from stream_aws.ecs_task import EcsTask
from stream_aws.key_object import KeysUnreadable
from stream_aws.metric_publication import MetricPublication
from stream_aws.signing_key_secret import CLIENT_CONFIG as SECRETS_CONFIG
from stream_aws.signing_key_secret import SigningKeySecret
from stream_aws.sqs_dead_letters import CLIENT_CONFIG as SQS_CONFIG
from stream_aws.sqs_dead_letters import SqsDeadLetters
from stream_aws.tables import TableNames
from stream_aws.task_protection import TaskProtection
from stream_core import metric_catalogue as catalogue

_logger = logging.getLogger(__name__)

# The write-behind's requests at once, and several times as many for what happens once a message.
_DYNAMODB_CONNECTIONS = 64
_LEASE_CONNECTIONS = 2


@asynccontextmanager
async def open_aws_adapters(settings: HandlerSettings, metrics: Metrics) -> AsyncIterator[Adapters]:
    """See `fargate_handler.adapters.open_adapters`."""
    async with AsyncExitStack() as clients:
        secret = await _secret(settings, clients)
        ecs_task = await _ecs_task(clients)
        host = ecs_task.host if ecs_task is not None else None
        yield Adapters(
            signing_keys=settings.signing_keys if secret is None else await _read(secret, settings),
            signing_key_secret=secret,
            stores=await _stores(settings, metrics, clients),
            publication=await _publication(settings, metrics, clients),
            ecs_task=ecs_task,
            task_protection=TaskProtection(os.environ[ECS_AGENT]) if ECS_AGENT in os.environ else None,
            peer_address=None if host is None else f"http://{host}:{settings.http_port}",
        )


async def _client(service: str, clients: AsyncExitStack, **options: Any) -> Any:
    # The SDK itself looks at AWS_DEFAULT_REGION and the profile; ECS says AWS_REGION.
    region = os.environ.get("AWS_REGION")
    try:
        return await clients.enter_async_context(get_session().create_client(service, region_name=region, **options))
    except NoRegionError:
        raise ConfigurationError(f"AWS_REGION must be set: the region of {service}") from None


async def _secret(settings: HandlerSettings, clients: AsyncExitStack) -> SigningKeySecret | None:
    if settings.token_keys_secret is None:
        return None
    return SigningKeySecret(await _client("secretsmanager", clients, config=SECRETS_CONFIG), settings.token_keys_secret)


async def _read(secret: SigningKeySecret, settings: HandlerSettings) -> dict[str, bytes]:
    try:
        return await secret.read()
    except KeysUnreadable as error:
        raise ConfigurationError(f"EVENFLOW_TOKEN_KEYS_SECRET={settings.token_keys_secret}: {error}") from error


async def _stores(settings: HandlerSettings, metrics: Metrics, clients: AsyncExitStack) -> Stores | None:
    if settings.store == "memory":
        return None
    client = await _client("dynamodb", clients, config=dynamodb_config(_DYNAMODB_CONNECTIONS))
    retries = metrics.counter(catalogue.STORE_RETRIES)

    def on_retry() -> None:
        retries.value += 1

    tables = TableNames(
        sessions=str(settings.sessions_table),
        ledger=str(settings.ledger_table),
        responses=str(settings.responses_table),
    )
    return Stores(
        sessions=DynamoDBSessionStore(client, tables, on_retry),
        responses=DynamoDBResponseStore(client, tables.responses, on_retry),
        leases=DynamoDBResponseStore(
            await _client("dynamodb", clients, config=dynamodb_config(_LEASE_CONNECTIONS)), tables.responses, on_retry
        ),
        dead_letters=await _dead_letters(settings, clients),
    )


async def _dead_letters(settings: HandlerSettings, clients: AsyncExitStack) -> SqsDeadLetters | None:
    if settings.dead_letters_queue is None:
        return None
    return SqsDeadLetters(await _client("sqs", clients, config=SQS_CONFIG), str(settings.dead_letters_queue))


async def _publication(
    settings: HandlerSettings, metrics: Metrics, clients: AsyncExitStack
) -> MetricPublication | None:
    if settings.metrics == "prometheus":
        return None
    client = await _client("cloudwatch", clients, config=CLOUDWATCH_CONFIG)
    return MetricPublication(CloudWatchPublisher(client, settings.metrics_environment), metrics.snapshot())


async def _ecs_task(clients: AsyncExitStack) -> EcsTask | None:
    metadata_uri = os.environ.get(ECS_METADATA)
    if metadata_uri is None:
        return None
    client = await _client("ecs", clients, config=ECS_CONFIG)
    try:
        return await EcsTask.own(client, metadata_uri)
    except (aiohttp.ClientError, OSError, TimeoutError, KeyError) as error:
        _logger.warning("the task's metadata can't be read (%s): this task leaves by SIGTERM alone", error)
        return None
