"""The public names of models, and their names at the model's server."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")


def parse_models(text: str) -> dict[str, str]:
    """Read `public=upstream,other=upstream2` as upstream names by public name.

    A name without `=` is both. A name with nothing after `=` means the model of the settings.

    Raises:
        ValueError: a name is missing, is there twice, or has an account's number in it.
    """
    models: dict[str, str] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        public, equals, upstream = map(str.strip, entry.partition("="))
        if not public or public in models:
            raise ValueError(f"has {entry!r}, which has no name, or one that is there already")
        if is_telling(public):
            raise ValueError(
                f"has {public!r} as a public name, which shows an account's number: write "
                f"name={public}"
            )
        models[public] = upstream if equals else public
    return models


def names_at_server(models: Mapping[str, str], default_model: str) -> dict[str, str]:
    """The models' names at their server by public name.

    Args:
        models: of `parse_models`. Empty: there is only that of the settings.
        own: the name of the model of the settings.
    """
    return {public: upstream or default_model for public, upstream in models.items()} or {
        default_model: default_model
    }


def own_name(model: str, model_name: str) -> str:
    """The public name of the only model: its name, or the last part of its ARN.

    Args:
        model: the kind of token source, which is the name of a model without one.
    """
    if model_name == "default":
        return model
    if not is_telling(model_name):
        return model_name
    last = re.split(r"[/:]", model_name)[-1]
    return "default" if not last or is_telling(last) else last


def is_telling(name: str) -> bool:
    """Whether a name is an ARN, or has an account's number in it."""
    return name.startswith("arn:") or _ACCOUNT.search(name) is not None
