"""Fields of requests that are either one text or a list."""

from __future__ import annotations

from pydantic import Discriminator

TEXT, LIST = "<text>", "<list>"
"""The tags of the two in a union with the discriminator `TEXT_OR_LIST`."""


def _kind(given: object) -> str | None:
    # Without this tag pydantic says of a wrong list that it is not a string.
    return TEXT if isinstance(given, str) else LIST if isinstance(given, list) else None


TEXT_OR_LIST = Discriminator(
    _kind,
    custom_error_type="text_or_list",
    custom_error_message="Input should be a string or a list",
)
