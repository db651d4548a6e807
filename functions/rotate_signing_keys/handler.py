"""The Lambda function that Secrets Manager calls, once a step, to rotate the signing keys."""

from __future__ import annotations

from collections.abc import Mapping

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.aws_client import aws_client
from functions.rotate_signing_keys.rotation import RotatingSecret, RotationRefused

logger = Logger()

_client = aws_client("secretsmanager")


@logger.inject_lambda_context(correlation_id_path="ClientRequestToken")
def handler(event: Mapping[str, str], _context: LambdaContext) -> None:
    """Do one step. What is raised makes Secrets Manager end the rotation and try again later; the current keys stay."""
    secret = RotatingSecret(_client, event["SecretId"], event["ClientRequestToken"])
    step = event["Step"]
    if secret.is_current():
        logger.info("the rotation is over already; nothing was done", extra={"step": step})
        return
    match step:
        case "createSecret":
            secret.create()
        case "setSecret":
            pass  # there is no other place to bring the keys to: everybody reads the secret
        case "testSecret":
            secret.test()
        case "finishSecret":
            secret.finish()
        case _:
            raise RotationRefused(f"there is no step {step!r}")
    logger.info("rotation step done", extra={"step": step})
