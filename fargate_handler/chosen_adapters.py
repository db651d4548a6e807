"""Opens the adapters that the settings choose: those of this machine, or AWS's."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fargate_handler.adapters import ECS_METADATA, Adapters, own_stores
from fargate_handler.metrics import Metrics
from fargate_handler.settings import HandlerSettings


@asynccontextmanager
async def open_adapters(settings: HandlerSettings, metrics: Metrics) -> AsyncIterator[Adapters]:
    """Open the adapters. They are closed at the end.

    Raises:
        ConfigurationError: keys can't be read, or the store can't be opened.
    """
    if not (settings.uses_aws or ECS_METADATA in os.environ):
        with own_stores(settings) as stores:
            keys = settings.signing_keys_beside(stores.signing_key)
            yield Adapters(keys, stores, tenant_keys=settings.keys_of_tenants)
        return
    # Only here: on a single machine AWS's SDK need not be installed.
    from fargate_handler.aws_adapters import open_aws_adapters  # noqa: PLC0415

    async with open_aws_adapters(settings, metrics) as adapters:
        yield adapters
