"""A hundred and sixty points at which four tasks are killed, one after the other."""

from __future__ import annotations

import aiohttp
import pytest

from tests.integration.conftest import (
    Serve,
    emulated_aws,
    emulated_dynamodb,
    http,
    process_deployment,
    serve,
    serve_process,
)
from tests.integration.deployment import Deployment
from tests.integration.test_kill_points import kill_points

__all__ = [
    "emulated_aws",
    "emulated_dynamodb",
    "http",
    "process_deployment",
    "serve",
    "serve_process",
]  # fixtures


@pytest.mark.timeout(180)
async def test_no_accepted_message_is_lost_and_none_is_paid_for_twice(
    process_deployment: Deployment, serve: Serve, http: aiohttp.ClientSession
) -> None:
    # One of the two that are left can go on where the text ended, the other begins again.
    assert await kill_points(4, 40, 150.0, process_deployment, serve, http) == {True, False}
