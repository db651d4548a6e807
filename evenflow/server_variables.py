"""The servers' variables, of which a command needs some without all the others."""

from __future__ import annotations

import os

from evenflow.fargate_handler.settings.environment import PREFIX, meant_variables
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings


def server_variable(setting: str) -> str:
    """The value of `EVENFLOW_<SETTING>`, or the setting's default."""
    default = str(HandlerSettings.model_fields[setting].default)
    return meant_variables(os.environ).get(f"{PREFIX}{setting.upper()}", default)
