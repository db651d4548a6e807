"""Replaces keys and tenants that were changed in their secrets or in the store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from evenflow.fargate_handler.adapters import Adapters
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.tenant_records import TenantRecords
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.tenants.registry import Tenants

if TYPE_CHECKING:
    from evenflow.stream_aws.key_secret import Keys, KeySecret

_logger = logging.getLogger(__name__)

_KEYS_SECONDS = 300.0
# An administrator's change is in force everywhere within 5 s.
_TENANTS_SECONDS = 3.0


class KeyRotation:
    """Reads the keys every five minutes, and the tenants' records every three seconds.

    Args:
        records: None if tenants have no records.
        now: on the monotonic clock.
    """

    def __init__(
        self,
        settings: HandlerSettings,
        adapters: Adapters,
        tokens: SessionTokens,
        tenants: Tenants,
        records: TenantRecords | None,
        background: Background,
        now: float,
    ) -> None:
        self._settings = settings
        self._adapters = adapters
        self._tokens = tokens
        self._tenants = tenants
        self._records = records
        self._background = background
        self._keys_due_at = now + _KEYS_SECONDS
        self._records_due_at = now + _TENANTS_SECONDS

    def sweep(self, now: float) -> None:
        """Begin to read what is due. Called about once a second."""
        if now >= self._keys_due_at:
            self._keys_due_at = now + _KEYS_SECONDS
            self._read_secrets()
        self._check_file(now)
        if self._records is not None and now >= self._records_due_at:
            self._records_due_at = now + _TENANTS_SECONDS
            self._background.run(self._records.look())

    def _read_secrets(self) -> None:
        signing, tenants = self._adapters.signing_key_secret, self._adapters.tenant_key_secret
        if signing is not None:
            self._background.run(
                _read_keys(signing, self._tokens.replace_keys, "the signing keys stay as they are")
            )
        if tenants is not None:
            self._background.run(
                _read_keys(
                    tenants,
                    self._tenants.replace_configured_keys,
                    "the tenant keys stay as they are",
                )
            )

    def _check_file(self, now: float) -> None:
        """Check that the stores' file still exists. Adopt keys and tenants of a restored file."""
        watch = self._adapters.stores.watch
        key = None if watch is None else watch.look(now, needs_tenants=bool(self._tenants.records))
        if key is None:
            return
        self._tokens.replace_keys(self._settings.signing_keys_beside(key))
        if self._records is not None:
            self._records.expect_others()
            self._records_due_at = now


async def _read_keys(
    secret: KeySecret[Keys], replace_keys: Callable[[Keys], None], failure: str
) -> None:
    """Replace the keys. If they can't be read, the old ones stay and `failure` is logged."""
    try:
        replace_keys(await secret.read())
    except Exception as error:
        _logger.error("%s: %s", failure, error)
