"""The names by which clients know models, and what these are called at the model's server."""

from __future__ import annotations

import re

_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")


def parse_models(text: str) -> dict[str, str]:
    """`public=upstream,other=upstream2` as public name → upstream name, in order.

    A name without `=` stands for itself; one with nothing behind it for the model that the settings name.

    Raises:
        ValueError: a name is missing, there twice, or tells what is nobody's business.
    """
    models: dict[str, str] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        public, equals, upstream = map(str.strip, entry.partition("="))
        if not public or public in models:
            raise ValueError(f"has {entry!r}, which names nothing, or a model that is there already")
        if is_telling(public):
            raise ValueError(f"has {public!r} as a public name, which tells of an account: write name={public}")
        models[public] = upstream if equals else public
    return models


def own_name(model: str, model_name: str) -> str:
    """What clients call the only model where nothing says so: its name, of an ARN the last part.

    Args:
        model: the kind of source, for one that has no name.
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
