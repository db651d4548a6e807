"""What one of several processes knows of the others."""

from __future__ import annotations

import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families

from evenflow.fargate_handler.gateway.connections.processes import (
    ProcessIdentity,
    Siblings,
    joined_pages,
    listening_socket,
    public_sockets,
)
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.peer_log import PeerUnreachable
from tests.unit.fargate_handler.measured import metrics_of

PLACE = ProcessIdentity(number=1, ports=(5000, 5001, 5002))


def test_the_joined_page_has_each_metric_once_and_the_samples_of_all() -> None:
    page = joined_pages(metrics_of(process).prometheus_page() for process in range(3)).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    alone = list(text_string_to_metric_families(metrics_of(0).prometheus_page().decode()))
    assert list(families) == [family.name for family in alone]
    assert page.count("# TYPE ") == len(alone)
    for family in alone:
        joined = families[family.name]
        assert (joined.type, joined.documentation) == (family.type, family.documentation)
        assert len(joined.samples) == 3 * len(family.samples)
    taken = families["evenflow_lease_take_overs"].samples
    assert [(it.labels["process"], it.value) for it in taken] == [("0", 1), ("1", 2), ("2", 3)]
    jitter = families[catalogue.DELIVERY_JITTER.prometheus_name].samples
    assert [(it.labels["process"], it.value) for it in jitter if it.labels.get("le") == "+Inf"] == [
        ("0", 1),
        ("1", 2),
        ("2", 3),
    ]


def test_a_process_alone_has_no_label() -> None:
    assert b"process=" not in metrics_of(None).prometheus_page()


async def test_a_process_asks_the_others_and_leaves_out_who_is_silent() -> None:
    own, other = (metrics_of(number).prometheus_page() for number in (1, 2))

    async def page(address: str) -> bytes:
        if address != "http://127.0.0.1:5002":
            raise PeerUnreachable("it was killed")
        return other

    joined = await Siblings(PLACE, page).metrics_page(own)
    assert joined == joined_pages([own, other])


def test_who_calls_a_process_own_address_means_it_alone() -> None:
    assert PLACE.own_address == "http://127.0.0.1:5001"
    assert PLACE.siblings == ["http://127.0.0.1:5000", "http://127.0.0.1:5002"]


def test_where_the_second_port_is_taken_the_first_is_given_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        first = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = HandlerSettings(http_port=first, ws_port=taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match="EVENFLOW_WS_PORT"):
            public_sockets(settings)
    listening_socket("127.0.0.1", first, settings).close()
