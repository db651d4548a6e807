"""Whether traces are exported, by the environment variables of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping

from evenflow.fargate_handler.settings.handler_settings import ConfigurationError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_ONE_OF = {
    **dict.fromkeys(_PROTOCOLS, ("http/protobuf",)),
    "OTEL_TRACES_EXPORTER": ("otlp", "none"),
    "OTEL_TRACES_SAMPLER": (
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ),
}
_RATIO = "OTEL_TRACES_SAMPLER_ARG"


def traces_wanted(environment: Mapping[str, str]) -> bool:
    """Whether traces are exported: an endpoint is set, and nothing turns them off.

    Raises:
        ConfigurationError: a variable has a value that isn't known. The SDK would go on without it.
    """
    endpoint = next((name for name in _ENDPOINTS if environment.get(name)), None)
    if endpoint is None or environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if not environment[endpoint].startswith(("http://", "https://")):
        raise ConfigurationError(f"{endpoint} must be a URL of http or https, with /v1/traces "
                                 "behind it where it is that of traces alone")  # fmt: skip
    for name, accepted in _ONE_OF.items():
        value = environment.get(name)
        if value and value.strip().lower() not in accepted:
            raise ConfigurationError(f"{name}={value!r}: must be one of {', '.join(accepted)}")
    _check_ratio(environment.get(_RATIO))
    return environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() != "none"


def _check_ratio(value: str | None) -> None:
    try:
        right = not value or 0 <= float(value) <= 1
    except ValueError:
        right = False
    if not right:
        raise ConfigurationError(f"{_RATIO}={value!r}: must be a number from 0 to 1")
