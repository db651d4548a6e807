"""Opens the servers' store of tenants, by the servers' own environment variables."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from evenflow.command_line import CommandFailed
from evenflow.fargate_handler.settings.environment import PREFIX, meant_variables
from evenflow.fargate_handler.settings.handler_settings import (
    HOW_TO_INSTALL_AWS,
    ConfigurationError,
    HandlerSettings,
)
from evenflow.stream_core.tenants.tenant_store import TenantStore
from evenflow.stream_core.tenants.usage_store import UsageStore
from evenflow.stream_sqlite.file import FileUnusable
from evenflow.stream_sqlite.stores import SQLiteStores


def server_variable(setting: str) -> str:
    """The value of `EVENFLOW_<SETTING>`, or the setting's default."""
    default = str(HandlerSettings.model_fields[setting].default)
    return meant_variables(os.environ).get(f"{PREFIX}{setting.upper()}", default)


# What is imported in functions need not be installed where it isn't used.
# ruff: noqa: PLC0415


_NO_RECORDS = (
    "EVENFLOW_STORE=memory: a server that keeps nothing has no records that could be reached from "
    "here; use sqlite (the default) or dynamodb, or give it keys with EVENFLOW_TENANT_KEYS"
)


class OpenedTenants(NamedTuple):
    """The stores of tenants' records and usage, and their place, in words."""

    store: TenantStore
    usage: UsageStore
    place: str


def open_tenants(place: str | None = None) -> AbstractAsyncContextManager[OpenedTenants]:
    """Open the store of EVENFLOW_STORE.

    Args:
        place: another file or table than that of the servers.

    Raises:
        ConfigurationError: a variable is missing or wrong.
        CommandFailed: AWS refuses.
    """
    store = server_variable("store")
    if store == "sqlite":
        return _file(Path(place or server_variable("store_path")).absolute())
    if store == "dynamodb":
        return _table(place or meant_variables(os.environ).get("EVENFLOW_TENANTS_TABLE", ""))
    if store == "memory":
        raise ConfigurationError(_NO_RECORDS)
    raise ConfigurationError(f"EVENFLOW_STORE={store!r} must be sqlite or dynamodb")


@asynccontextmanager
async def _file(path: Path) -> AsyncIterator[OpenedTenants]:
    try:
        stores = SQLiteStores(path, time.time)
    except FileUnusable as error:
        raise ConfigurationError(f"EVENFLOW_STORE_PATH={path}: {error}") from error
    with closing(stores):
        yield OpenedTenants(stores.tenants, stores.usage, str(path))


@asynccontextmanager
async def _table(table: str) -> AsyncIterator[OpenedTenants]:
    if not table:
        raise ConfigurationError(
            "EVENFLOW_TENANTS_TABLE must be set where EVENFLOW_STORE=dynamodb: the table's name"
        )
    if find_spec("aiobotocore") is None:
        raise ConfigurationError(
            "EVENFLOW_STORE=dynamodb needs the AWS SDK, which is not installed: "
            f"{HOW_TO_INSTALL_AWS}"
        )
    from aiobotocore.session import get_session
    from botocore.exceptions import ClientError, NoRegionError

    from evenflow.stream_aws.dynamodb import client_config
    from evenflow.stream_aws.dynamodb_tenant_store import DynamoDBTenantStore
    from evenflow.stream_aws.dynamodb_usage_store import DynamoDBUsageStore

    region, config = os.environ.get("AWS_REGION"), client_config(connections=1)
    try:
        async with get_session().create_client("dynamodb", region, config=config) as client:
            yield OpenedTenants(
                DynamoDBTenantStore(client, table, _nothing),
                DynamoDBUsageStore(client, table, _nothing),
                f"table {table}",
            )
    except NoRegionError:
        raise ConfigurationError("AWS_REGION must be set: the region of the table") from None
    except ClientError as error:
        raise CommandFailed(f"EVENFLOW_TENANTS_TABLE={table}: {error}") from error


def _nothing() -> None:
    pass
