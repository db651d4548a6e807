"""boto3 clients for calls that somebody waits for: made while the function is loaded, with short timeouts."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config


def aws_client(service: str, attempts: int = 2) -> Any:
    """A client of the region (and, here, the endpoint) that the environment names; a call takes at most 3 s an attempt."""
    retries = {"mode": "standard", "total_max_attempts": attempts}
    return boto3.client(service, config=Config(connect_timeout=1, read_timeout=2, retries=retries))
