"""A budget in dollars needs the prices of the models, by the servers' own variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from evenflow.command_line import CommandFailed
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from evenflow.server_variables import server_variable
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.base.public_models import names_at_server, own_name, parse_models
from evenflow.stream_core.tenants.budget import models_without_price
from evenflow.stream_core.tenants.tenant import Tenant

T = TypeVar("T")


def check_prices(tenant: Tenant) -> None:
    """Check that the budgets of a record can be counted.

    Raises:
        CommandFailed: a budget is in dollars, and a model that the tenant may ask has no price.
        ConfigurationError: the prices or the models can't be read.
    """
    own = own_name(server_variable("model"), server_variable("model_name"))
    served = names_at_server(_parsed("models", parse_models), own)
    missing = models_without_price(tenant, served, _parsed("model_prices", ModelPrices.parse))
    if missing:
        raise CommandFailed(
            f"nothing was changed: a budget in dollars needs the price of {', '.join(missing)}, "
            f"and messages would be refused without it; {_how_to_set(missing)}"
        )


def _how_to_set(missing: Sequence[str]) -> str:
    set_them = (
        "set EVENFLOW_MODEL_PRICES here and at the servers, in dollars for a million tokens of "
        "input and output: " + ",".join(f"{model}=2.50/10" for model in missing)
    )
    if server_variable("store") != "dynamodb":
        return set_them
    return (
        f"{set_them}; our stacks take prices from inference.price and inference.prices, and their "
        "output TenantsVariables has what to set here"
    )


def _parsed(setting: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(server_variable(setting))
    except ValueError as error:
        raise ConfigurationError(f"EVENFLOW_{setting.upper()} {error}") from None
