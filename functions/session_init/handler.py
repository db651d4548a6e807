"""The Lambda function behind `POST /session`."""

from __future__ import annotations

import os
import time
from typing import Any

from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.metrics import EphemeralMetrics
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from evenflow.functions.cached_secret import CachedSecret
from evenflow.functions.http_api import (
    EdgeKeys,
    Event,
    HttpApiAnswer,
    HttpApiRequest,
    answer_event,
    json_answer,
    public_address,
)
from evenflow.functions.lambda_runtime import ColdStart, aws_client
from evenflow.functions.session_init.identity_keys import IdentityKeyFetcher
from evenflow.functions.settings import SessionInitSettings
from evenflow.functions.tenant_records import TenantRecordCache
from evenflow.stream_aws.attributes import seconds, text
from evenflow.stream_aws.keys import parse_signing_keys, parse_tenant_keys
from evenflow.stream_aws.tables import SESSIONS, TTL_ATTRIBUTE
from evenflow.stream_core.auth.oidc import IdentityTokens
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.agents import Agents
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.bounds.address_rates import AddressRates
from evenflow.stream_core.http.routes import OPEN_SESSION
from evenflow.stream_core.protocols.evenflow.messages import SESSION_REQUEST, parse
from evenflow.stream_core.protocols.evenflow.session_init import bearer, check_address, open_session
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS
from evenflow.stream_core.tenants.registry import Tenants


class SessionTable:
    """The table of sessions, written when a session is opened.

    Args:
        client: a boto3 client of DynamoDB.
    """

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table

    def record_opened(self, channel: Channel, now: float) -> None:
        """Record when the session was first opened. An existing row stays unchanged.

        Only messages prolong a row. Otherwise a session that has expired could come back with its
        last message, if DynamoDB has not deleted it yet.

        Args:
            now: seconds since the epoch.

        Raises:
            BotoCoreError, ClientError: DynamoDB did not take it.
        """
        self._client.update_item(
            TableName=self._table,
            Key={SESSIONS.partition: text(str(channel))},
            UpdateExpression=(
                "SET created_at = if_not_exists(created_at, :now), #ttl = if_not_exists(#ttl, :ttl)"
            ),
            ExpressionAttributeNames={"#ttl": TTL_ATTRIBUTE},
            ExpressionAttributeValues={
                ":now": seconds(now),
                ":ttl": seconds(now + LIFETIME_SECONDS),
            },
        )


logger = Logger()
tracer = Tracer()
_cold_start = ColdStart(EphemeralMetrics(namespace="Evenflow", service=""))

_settings = SessionInitSettings.from_environment(os.environ)
_agents = Agents(_settings.agents)
# One attempt of at most two seconds for each of three secrets and two tables: whatever hangs, the
# call is answered within ten seconds, before Lambda ends it.
_secrets = aws_client("secretsmanager", attempts=1, read_seconds=1)
_signing_keys = CachedSecret(_secrets, _settings.token_keys_secret, parse_signing_keys, logger)
_edge_keys = EdgeKeys(_secrets, _settings.edge_keys_secret, logger)
_opened = AddressRates(_settings.limits.sessions_per_address_per_second)
_tenant_keys = CachedSecret(_secrets, _settings.tenant_keys_secret, parse_tenant_keys, logger)
_dynamodb = aws_client("dynamodb", attempts=1, read_seconds=1)
_sessions = SessionTable(_dynamodb, _settings.sessions_table)
_oidc = _settings.oidc
_tenants = Tenants(
    identified=_oidc is not None,
    claimed=_oidc is not None and _oidc.needs_record,
    open_tenant=_settings.open_tenant,
    closed=True,
)
_tenant_records = TenantRecordCache(_dynamodb, _settings.tenants_table, _tenants, logger)
_RETRY_AFTER_MS = 3_000
_identities = None if _oidc is None else IdentityKeyFetcher(IdentityTokens(_oidc), logger)


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_HTTP)
@tracer.capture_lambda_handler(capture_response=False)  # the response has the token
def handler(event: Event, context: LambdaContext) -> HttpApiAnswer:
    """Answer one event of the HTTP API."""
    _cold_start.record_call(context)
    origins, body_limit = _settings.allowed_origins, _settings.limits.message_bytes
    return answer_event(
        event,
        OPEN_SESSION,
        _open,
        check_caller=_edge_keys.check,
        origins=origins,
        body_limit=body_limit,
        logger=logger,
    )


def _open(request: HttpApiRequest) -> HttpApiAnswer:
    session_request = parse(SESSION_REQUEST, request.body or b"{}")
    credential, now = bearer(request.headers.get("authorization")), time.time()
    if _identities is not None:
        _identities.prepare(credential)
    address = public_address(request)
    origin = request.headers.get("origin")
    opened = open_session(
        session_request,
        credential,
        agents=_agents,
        tenants=_current_tenants(credential, now),
        tokens=SessionTokens(_signing_keys.get()),
        now=now,
        ttl=_settings.limits.session_token_ttl_seconds,
        # Each execution environment counts by itself. A web ACL counts for all.
        check_without_key=lambda: check_address(_opened, request.address, time.monotonic()),
        identities=None if _identities is None else _identities.tokens,
        origin=None if origin == address.http_url else origin,
    )
    _record_opened(opened.channel, now)
    return json_answer(opened.to_body(ws_url=address.ws_url, http_url=address.http_url), status=201)


def _current_tenants(credential: str | None, now: float) -> Tenants:
    """The tenants in force.

    Raises:
        Overloaded: the records can't be read, and the credential is no key of the secret. It may be
            a key of a record, and a tenant with a record must not open without its key.
    """
    _tenants.replace_configured_keys(_tenant_keys.get())
    if not _tenant_records.refresh() and _tenants.with_key(credential, now) is None:
        raise Overloaded(
            "the keys cannot be read at the moment; nothing was changed, try again in some seconds",
            code="keys_unavailable",
            retry_after_ms=_RETRY_AFTER_MS,
        )
    return _tenants


def _record_opened(channel: Channel, now: float) -> None:
    # The token is valid without the row, and the session's first message writes one. So an outage
    # of DynamoDB rejects no client.
    try:
        _sessions.record_opened(channel, now)
    except (BotoCoreError, ClientError) as error:
        logger.error(
            "the session's row was not written; the token was given all the same",
            extra={"reason": str(error)},
        )
