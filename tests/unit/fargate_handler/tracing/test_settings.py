from __future__ import annotations

import pytest

from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from evenflow.fargate_handler.settings.tracing_settings import traces_wanted

_ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "always_on"},
        {**_ENDPOINT, "OTEL_SDK_DISABLED": "True"},
        {**_ENDPOINT, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_an_endpoint_or_where_it_is_turned_off_nothing_is_exported(
    environment: dict[str, str],
) -> None:
    assert not traces_wanted(environment)


@pytest.mark.parametrize(
    "further",
    [
        {},
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.05"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_TRACES_EXPORTER": "otlp"},
        {"OTEL_SDK_DISABLED": "false"},
    ],
)
def test_an_endpoint_turns_traces_on(further: dict[str, str]) -> None:
    assert traces_wanted({**_ENDPOINT, **further})
    assert traces_wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/v1/traces", **further})


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "http/protobuf"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp, none"),
        ("OTEL_TRACES_SAMPLER", "xray", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "5%", "from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "nan", "from 0 to 1"),
    ],
)
def test_a_value_that_the_sdk_would_pass_over_stops_the_start(
    name: str, value: str, accepted: str
) -> None:
    with pytest.raises(ConfigurationError, match=name) as refused:
        traces_wanted({**_ENDPOINT, name: value})
    assert accepted in str(refused.value)
