"""The Lambda function that Secrets Manager calls to rotate the signing keys."""

from __future__ import annotations

from collections.abc import Mapping

from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.metrics import EphemeralMetrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from evenflow.functions.lambda_runtime import ColdStart, aws_client
from evenflow.functions.rotate_signing_keys.rotation import RotatingSecret, RotationRefused

logger = Logger()
tracer = Tracer()
_cold_start = ColdStart(EphemeralMetrics(namespace="Evenflow", service=""))

_client = aws_client("secretsmanager")


@logger.inject_lambda_context(correlation_id_path="ClientRequestToken")
@tracer.capture_lambda_handler(capture_response=False)
def handler(event: Mapping[str, str], context: LambdaContext) -> None:
    """Do one step. If it raises, Secrets Manager tries again later, and the current keys stay."""
    _cold_start.record_call(context)
    secret = RotatingSecret(_client, event["SecretId"], event["ClientRequestToken"])
    step = event["Step"]
    if secret.is_current():
        logger.info("the rotation is over; nothing was done", extra={"step": step})
        return
    match step:
        case "createSecret":
            secret.create()
        case "setSecret":
            pass  # no service has a copy of the keys: all read the secret
        case "testSecret":
            secret.test()
        case "finishSecret":
            secret.finish()
        case _:
            raise RotationRefused(f"there is no step {step!r}")
    logger.info("rotation step done", extra={"step": step})
