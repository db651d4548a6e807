from __future__ import annotations

import logging

import pytest

from evenflow.fargate_handler.inference.worker_pool import resolve
from evenflow.fargate_handler.settings.model_values import split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.1:50051", ("10.0.0.1", 50051)),
        ("workers.internal:1", ("workers.internal", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "", ":", "host", "host:", ":50051", "host:0", "host:65536", "host:x", "host:-1", "host:+1",
        "::1:50051", "[::1]", "[]:1", "[host]:1", "host:１",
    ],
)  # fmt: skip
def test_anything_else_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(address)


async def test_addresses_become_targets_and_keep_their_name() -> None:
    found = await resolve(["127.0.0.1:1", "[::1]:2"], {})
    assert found == {"ipv4:127.0.0.1:1": "127.0.0.1:1", "ipv6:[::1]:2": "[::1]:2"}


async def test_a_name_is_looked_up() -> None:
    found = await resolve(["localhost:7"], {})
    assert "ipv4:127.0.0.1:7" in found
    assert set(found.values()) == {"localhost:7"}


async def test_a_name_that_cannot_be_looked_up_stands_for_what_it_did_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = {"ipv4:10.0.0.1:1": "no.such.host.invalid:1", "ipv4:10.0.0.2:2": "127.0.0.1:2"}
    with caplog.at_level(logging.WARNING):
        found = await resolve(
            ["no.such.host.invalid:1", "127.0.0.1:2", "nor.this.invalid:3"], known
        )
    assert found == {"ipv4:10.0.0.1:1": "no.such.host.invalid:1", "ipv4:127.0.0.1:2": "127.0.0.1:2"}
    assert "no.such.host.invalid:1" in caplog.text
    assert "nor.this.invalid:3" in caplog.text
