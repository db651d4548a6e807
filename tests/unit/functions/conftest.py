"""A logger whose lines can be read."""

from __future__ import annotations

import io
import uuid

import pytest
from aws_lambda_powertools import Logger


@pytest.fixture
def log() -> io.StringIO:
    """What was logged, a JSON object a line."""
    return io.StringIO()


@pytest.fixture
def logger(log: io.StringIO) -> Logger:
    """Writes there. Loggers of one service share their stream, so each has a service of its own."""
    return Logger(service=uuid.uuid4().hex, stream=log)
