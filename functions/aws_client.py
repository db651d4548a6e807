"""Makes boto3 clients for calls on which a caller waits, when the function is loaded."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config


def aws_client(service: str, attempts: int = 2) -> Any:
    """A client for the environment's region. An attempt takes 3 s at most."""
    retries = {"mode": "standard", "total_max_attempts": attempts}
    return boto3.client(service, config=Config(connect_timeout=1, read_timeout=2, retries=retries))
