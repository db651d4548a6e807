"""Opens the adapters that the settings choose: those of this machine, or AWS's."""
# What is imported in functions need not be installed, or takes memory, where it isn't used.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from evenflow.fargate_handler.adapters import ECS_METADATA, Adapters, own_stores
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.settings.tracing_settings import traces_wanted

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
