from __future__ import annotations

from contextlib import suppress
from typing import Any

import botocore.session
import pytest

from evenflow.stream_aws.s3_large_texts import CLIENT_CONFIG, PREFIX


class _Stopped(Exception):
    """The request is not sent."""


def _asked(region: str) -> list[str]:
    """The addresses that a task in this region would ask for an object."""
    session = botocore.session.Session()
    session.set_credentials("key", "secret")
    client = session.create_client("s3", region_name=region, config=CLIENT_CONFIG)
    urls: list[str] = []

    def note(request: Any, **_: Any) -> None:
        urls.append(request.url)
        raise _Stopped

    client.meta.events.register("before-send.s3", note)
    with suppress(_Stopped):
        client.get_object(Bucket="large", Key=f"{PREFIX}rsp_1")
    return urls


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_s3_is_asked_at_its_regional_address(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_S3_US_EAST_1_REGIONAL_ENDPOINT",
    ):
        monkeypatch.delenv(variable, raising=False)
    assert _asked(region) == [f"https://large.s3.{region}.amazonaws.com/requests/rsp_1"]
