"""The emulator's process collects no garbage: a collection would stop it for a tenth of a second. So no request may leave any."""

from __future__ import annotations

import gc

from tests.dynamodb_emulator.direct_client import DirectClient, Refused
from tests.dynamodb_emulator.random_requests import CREATE_TABLE, RandomRequests


def test_requests_leave_nothing_behind(dynamodb: DirectClient) -> None:
    dynamodb("CreateTable", **CREATE_TABLE)
    requests = RandomRequests(0)
    gc.collect()
    gc.disable()
    try:
        for _ in range(1000):
            operation, request = requests.next()
            try:
                dynamodb(operation, **request)
            except Refused:
                continue
        assert gc.collect() < 100
    finally:
        gc.enable()
