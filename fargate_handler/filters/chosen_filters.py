"""Makes the content filters that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from evenflow.fargate_handler.filters.content_filters import (
    ContentFilters,
    FilterUnusable,
    filter_from_python,
    patterns_from_toml,
)
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.fargate_handler.settings.model_values import Guardrail
from evenflow.stream_core.filtering.port import FilterAction, Filtering
from evenflow.stream_core.tenants.registry import Tenants

_T = TypeVar("_T")


def chosen_filters(
    settings: HandlerSettings, tenants: Tenants, metrics: Metrics, monotonic: Callable[[], float]
) -> ContentFilters:
    """The filters of this node.

    Raises:
        ConfigurationError: a filter can't be used. The message names the variable.
    """
    path, python, guardrail = (
        settings.filter_file,
        settings.filter_python,
        settings.filter_guardrail,
    )
    judge = None
    if guardrail is not None:
        # Imported only for a guardrail: the SDK is optional, and takes memory.
        from evenflow.fargate_handler.filters.guardrail_client import (  # noqa: PLC0415
            GuardrailClient,
        )

        judge = GuardrailClient(Guardrail.parse(guardrail), settings.generations_per_node)
    return ContentFilters(
        Filtering(settings.filtering),
        tenants,
        metrics,
        monotonic,
        groups=settings.filter_patterns,
        own=() if path is None else _made("FILE", path, patterns_from_toml),
        python=None if python is None else _made("PYTHON", python, filter_from_python),
        guardrail=judge,
        action=FilterAction(settings.filter_action),
    )


_Setting = TypeVar("_Setting")


def _made(name: str, setting: _Setting, make: Callable[[_Setting], _T]) -> _T:
    try:
        return make(setting)
    except FilterUnusable as wrong:
        raise ConfigurationError(f"EVENFLOW_FILTER_{name}={setting}: {wrong}") from None
