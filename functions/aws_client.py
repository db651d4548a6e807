"""Makes boto3 clients, when the function is loaded."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config


def aws_client(service: str, attempts: int = 2, read_seconds: float = 2) -> Any:
    """A client for the environment's region.

    Without arguments it is for calls on which a caller waits: an attempt takes 3 s at most.
    """
    retries = {"mode": "standard", "total_max_attempts": attempts}
    config = Config(connect_timeout=1, read_timeout=read_seconds, retries=retries)
    return boto3.client(service, config=config)
