"""The Lambda function that is called a quarter of an hour after each day's end."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.metrics import EphemeralMetrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from evenflow.functions.cached_secret import CachedSecret
from evenflow.functions.lambda_runtime import ColdStart, aws_client
from evenflow.functions.settings import UsageFileSettings
from evenflow.functions.usage_file.daily_files import DailyFiles, UsageTable
from evenflow.functions.usage_file.usage_bucket import UsageBucket
from evenflow.stream_aws.keys import parse_tenant_keys

logger = Logger()
tracer = Tracer()
_cold_start = ColdStart(EphemeralMetrics(namespace="Evenflow", service=""))

_ATTEMPTS, _READ_SECONDS = 5, 30

_settings = UsageFileSettings.from_environment(os.environ)
_tenant_keys = CachedSecret(
    aws_client("secretsmanager"), _settings.tenant_keys_secret, parse_tenant_keys, logger
)
_files = DailyFiles(
    UsageTable(aws_client("dynamodb", _ATTEMPTS, _READ_SECONDS), _settings.tenants_table),
    UsageBucket(aws_client("s3", _ATTEMPTS, _READ_SECONDS), _settings.usage_bucket),
    secret_tenants=lambda: _tenant_keys.get().keys(),
    kept_seconds=_settings.limits.usage_ttl_seconds,
    logger=logger,
)


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
def handler(event: Mapping[str, object], context: LambdaContext) -> None:
    """Write the files that are missing, or with `{"day": "2026-11-24"}` that day's anew.

    If it raises, Lambda tries again, and what is still missing then is written a day later.
    """
    _cold_start.record_call(context)
    now = time.time()
    if "day" in event:
        _files.rewrite(str(event["day"]), now)
    else:
        _files.write_missing(now)
