from __future__ import annotations

import pytest

from evenflow.functions.http_api import HttpApiRequest, public_address


@pytest.mark.parametrize(
    ("headers", "ws_url", "http_url"),
    [
        ({}, "wss://api.example/ws", "https://api.example"),
        ({"x-evenflow-host": "chat.example"}, "wss://chat.example/ws", "https://chat.example"),
        ({"x-evenflow-host": ""}, "wss://api.example/ws", "https://api.example"),
        ({"x-forwarded-proto": "https"}, "wss://api.example/ws", "https://api.example"),
        (
            {"x-evenflow-host": "127.0.0.1:8090", "x-forwarded-proto": "http"},
            "ws://127.0.0.1:8090/ws",
            "http://127.0.0.1:8090",
        ),
    ],
)
def test_a_client_goes_on_at_the_host_that_it_called(
    headers: dict[str, str], ws_url: str, http_url: str
) -> None:
    address = public_address(HttpApiRequest({}, {}, headers, b"", "api.example", ""))
    assert (address.ws_url, address.http_url) == (ws_url, http_url)
