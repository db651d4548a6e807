"""Opens the adapters that the settings choose: those of this machine, or AWS's."""
# What is imported in functions need not be installed, or takes memory, where it isn't used.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from evenflow.fargate_handler.adapters import ECS_METADATA, Adapters, own_stores
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import (
    ConfigurationError,
    HandlerSettings,
)
from evenflow.fargate_handler.settings.tracing_settings import traces_wanted
from evenflow.stream_sqlite.file import connect, signing_key

if TYPE_CHECKING:
    from evenflow.fargate_handler.tracing.exporting import Tracing


@asynccontextmanager
async def open_adapters(settings: HandlerSettings, metrics: Metrics) -> AsyncIterator[Adapters]:
    """Open the adapters. They are closed at the end.

    Raises:
        ConfigurationError: keys can't be read, the store can't be opened, or a variable of the
            traces is wrong.
    """
    async with open_tracing("evenflow-handler") as tracing, _open(settings, metrics) as adapters:
        yield replace(adapters, tracing=tracing)


async def signing_keys_in_use(settings: HandlerSettings) -> dict[str, bytes]:
    """The keys that running nodes with these settings sign with.

    Raises:
        ConfigurationError: they can't be read.
    """
    if settings.token_keys_secret is not None:
        from evenflow.fargate_handler.aws_adapters import read_signing_keys

        return await read_signing_keys(settings)
    if settings.store != "sqlite":
        return settings.signing_keys
    try:
        with closing(connect(settings.store_path)) as connection:
            return settings.signing_keys_beside(signing_key(connection))
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"EVENFLOW_STORE_PATH={settings.store_path} can't be read ({error}): it must be the "
            "server's file"
        ) from error


@asynccontextmanager
async def open_tracing(service: str) -> AsyncIterator[Tracing | None]:
    """Export traces, if the environment says where to. None: it doesn't.

    Args:
        service: the name of the service, where the environment says none.

    Raises:
        ConfigurationError: a variable is wrong.
    """
    if not traces_wanted(os.environ):
        yield None
        return
    from evenflow.fargate_handler.tracing.exporting import exported_traces

    async with exported_traces(service) as tracing:
        yield tracing


@asynccontextmanager
async def _open(settings: HandlerSettings, metrics: Metrics) -> AsyncIterator[Adapters]:
    if not (settings.uses_aws or ECS_METADATA in os.environ):
        with own_stores(settings) as stores:
            keys = settings.signing_keys_beside(stores.signing_key)
            yield Adapters(keys, stores, tenant_keys=settings.keys_of_tenants)
        return
    from evenflow.fargate_handler.aws_adapters import open_aws_adapters

    async with open_aws_adapters(settings, metrics) as adapters:
        yield adapters
