"""The Lambda function behind `GET /chat/message/{response_id}`."""

from __future__ import annotations

import os
import time

from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from evenflow.functions.cached_secret import CachedSecret
from evenflow.functions.http_api import (
    EdgeKeys,
    Event,
    HttpApiAnswer,
    HttpApiRequest,
    answer_event,
    json_answer,
)
from evenflow.functions.lambda_runtime import ColdStart, aws_client
from evenflow.functions.poll_response.long_poll import LongPoll, PollResult
from evenflow.functions.poll_response.stored_responses import StoredResponses
from evenflow.functions.settings import PollResponseSettings
from evenflow.functions.tenant_records import TenantRecordCache
from evenflow.stream_aws.keys import parse_signing_keys
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.http.http_contract import whole_number
from evenflow.stream_core.http.routes import POLL
from evenflow.stream_core.metrics.metric_catalogue import POLL_COUNT, POLL_LATENCY
from evenflow.stream_core.protocols.evenflow.long_poll import DEFAULT_TIMEOUT_MS, Polled
from evenflow.stream_core.protocols.evenflow.session_init import bearer
from evenflow.stream_core.records.event_record import milliseconds
from evenflow.stream_core.records.reader_record import LeaveReason, ReaderRecord
from evenflow.stream_core.tenants.registry import Tenants

logger = Logger()
tracer = Tracer()

_settings = PollResponseSettings.from_environment(os.environ)
_secrets = aws_client("secretsmanager")
_edge_keys = EdgeKeys(_secrets, _settings.edge_keys_secret, logger)
_signing_keys = CachedSecret(_secrets, _settings.token_keys_secret, parse_signing_keys, logger)
_dynamodb = aws_client("dynamodb")
_responses = StoredResponses(_dynamodb, _settings.responses_table)
# This function doesn't read the secret's keys: a token that one of these opened lasts until it
# expires.
_tenants = Tenants(known=False, wall_time=time.time)
_tenant_records = TenantRecordCache(_dynamodb, _settings.tenants_table, _tenants, logger)

# Without a service, which would be a second dimension. The alarms have only the environment.
metrics = EphemeralMetrics(namespace="Evenflow", service="")
metrics.set_default_dimensions(Environment=_settings.metrics_environment)
_cold_start = ColdStart(metrics)


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_HTTP)
@tracer.capture_lambda_handler(capture_response=False)  # the response has a user's answer
def handler(event: Event, context: LambdaContext) -> HttpApiAnswer:
    """Answer one event of the HTTP API."""
    _cold_start.record_call(context)
    origins, body_limit = _settings.allowed_origins, _settings.limits.message_bytes
    return answer_event(
        event,
        POLL,
        _poll,
        check_caller=_edge_keys.check,
        origins=origins,
        body_limit=body_limit,
        logger=logger,
    )


def _poll(request: HttpApiRequest) -> HttpApiAnswer:
    token = bearer(request.headers.get("authorization"))
    response_id = request.path_names["response_id"]
    tokens = SessionTokens(_signing_keys.get())
    claims = tokens.verify_for(Right.READ, token, time.time(), response_id)
    _tenant_records.refresh()
    _tenants.check_valid(claims.channel.tenant, claims.key)
    timeout_ms = whole_number("timeout_ms", request.query.get("timeout_ms"), DEFAULT_TIMEOUT_MS)
    from_index = whole_number("from_index", request.query.get("from_index"), 0)
    began_at = time.monotonic()
    limits = _settings.limits
    result = LongPoll(
        _responses,
        response_id=response_id,
        channel=str(claims.channel),
        from_index=from_index,
        epoch=whole_number("epoch", request.query.get("epoch"), 1, lowest=1),
        patience=min(timeout_ms, limits.poll_timeout_max_ms) / 1000,
        shared=claims.shared,
        most_waiting=limits.connections_per_session,
        wall_time=time.time,
        sleep=time.sleep,
    ).run()
    _measure(result)
    _log(result.polled, claims.channel, from_index, time.monotonic() - began_at)
    return json_answer(result.polled.to_body())


def _log(polled: Polled, channel: Channel, from_index: int, seconds: float) -> None:
    reader = ReaderRecord(
        tenant=channel.tenant,
        agent=channel.agent,
        session=channel.session_digest,
        message_id=polled.message_id,
        response_id=polled.response_id,
        protocol=POLL.protocol.name,
        transport="poll",
        via="store",
        left=LeaveReason.ENDED if polled.status.terminal else LeaveReason.ANSWERED,
        first_index=from_index,
        entries_delivered=max(0, polled.part.last_index + 1 - from_index),
        entries_missed=0,
        duration_ms=milliseconds(seconds),
    )
    logger.info(str(reader), extra=reader.to_fields())


def _measure(result: PollResult) -> None:
    metrics.add_metric(POLL_LATENCY.name, MetricUnit.Milliseconds, result.late_ms)
    if result.polls is not None:
        metrics.add_metric(POLL_COUNT.name, MetricUnit.Count, result.polls)
    metrics.flush_metrics()
