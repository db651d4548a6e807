"""Reads the tenants' records from the store, and puts them in force."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.tenants.budget import models_without_price
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant_store import TenantStore

_logger = logging.getLogger(__name__)


class TenantRecords:
    """Reads the records when the node starts, and again when they have changed.

    Args:
        tenants: the tenants in force, which the records replace.
        prices: of the models.
        served_models: the models' names at their server by public name.
    """

    def __init__(
        self,
        store: TenantStore,
        tenants: Tenants,
        prices: ModelPrices,
        served_models: Mapping[str, str],
    ) -> None:
        self._store = store
        self._tenants = tenants
        self._prices = prices
        self._served_models = served_models
        self._without_price: frozenset[str] = frozenset()
        self._open_ids: frozenset[str] = frozenset()
        self._is_shut = False
        self._revision = 0
        self._is_reading = False
        self._is_failing = False

    async def read(self) -> None:
        """Put all records in force.

        Raises:
            StoreUnavailable: the store failed. What was in force stays.
        """
        stored = await self._store.load()
        self._tenants.replace(stored.records, removed=stored.removed, closed=stored.had_tenants)
        self._revision = stored.revision
        self._warn_of_missing_prices()
        self._warn_of_access()

    def expect_others(self) -> None:
        """Read all records at the next check, at any revision: the store was replaced."""
        self._revision = -1

    async def look(self) -> None:
        """Read the records if their revision has changed. One read at a time.

        If the store fails, what is in force stays. The log says so once, until it works again.
        """
        if self._is_reading:
            return
        self._is_reading = True
        try:
            if await self._store.revision() != self._revision:
                await self.read()
                _logger.info("the tenants were read again: %d records", len(self._tenants.records))
            else:
                self._tenants.note_read()
            self._is_failing = False
        except Exception as error:
            if not self._is_failing:
                _logger.error("the tenants stay as they are: %s", error)
            self._is_failing = True
        finally:
            self._is_reading = False

    def _warn_of_access(self) -> None:
        """Warn of tenants that need no key where others do, and if no tenant is left."""
        tenants = self._tenants
        open_ids = frozenset[str]() if tenants.open_to_all else tenants.open_ids
        for tenant_id in sorted(open_ids - self._open_ids):
            _logger.warning(
                "tenant %s is open: every client that reaches this server may open its sessions "
                "without a key, and use the model",
                tenant_id,
            )
        if tenants.is_shut and not self._is_shut:
            _logger.warning(
                "no tenant is left, and callers need a key: `evenflow tenants add NAME` makes a "
                "tenant, and with --open one that needs no key"
            )
        self._open_ids, self._is_shut = open_ids, tenants.is_shut

    def _warn_of_missing_prices(self) -> None:
        """Warn of budgets without prices, once for each tenant until the prices are there."""
        missing = {
            tenant.id: models
            for tenant in self._tenants.records
            if (models := models_without_price(tenant, self._served_models, self._prices))
        }
        for tenant_id in sorted(missing.keys() - self._without_price):
            _logger.warning(
                "tenant %s has a budget in dollars, and EVENFLOW_MODEL_PRICES has no price of %s: "
                "messages that ask for that are refused with model_without_price",
                tenant_id,
                ", ".join(missing[tenant_id]),
            )
        self._without_price = frozenset(missing)
