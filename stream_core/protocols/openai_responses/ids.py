"""The ids of OpenAI's Responses API. They say which channel has the response."""

from __future__ import annotations

import re
from typing import NamedTuple

_OWN = 32
_CHANNEL = 40
_ID = re.compile(rf"resp_([0-9a-f]{{{_OWN}}})([0-9a-f]{{{_CHANNEL}}})", re.ASCII)
_ITEM = re.compile(
    rf"(?:msg|rs|fc|ctc)_([0-9a-f]{{{_OWN}}})([0-9a-f]{{{_CHANNEL}}})_([0-9]{{1,6}})", re.ASCII
)
_RESPONSE = "rsp_"


class PublicResponse(NamedTuple):
    """A response as clients of the Responses API name it.

    Args:
        response_id: its id everywhere else.
        digest: what its channel is named after, 40 hexadecimal digits.
    """

    response_id: str
    digest: str

    def __str__(self) -> str:
        return f"resp_{self._body}"

    def item(self, prefix: str, number: int) -> str:
        """The id of the output item `number`. `prefix` is its kind, such as `msg`."""
        return f"{prefix}_{self._body}_{number}"

    @property
    def _body(self) -> str:
        return self.response_id.removeprefix(_RESPONSE) + self.digest

    @classmethod
    def parse(cls, text: str) -> PublicResponse | None:
        """Read an id. None: it is not one of ours."""
        match = _ID.fullmatch(text)
        return None if match is None else cls(_RESPONSE + match[1], match[2])


def parse_item(text: str) -> tuple[PublicResponse, int] | None:
    """The response of an output item's id, and the item's number. None: it is not one of ours."""
    match = _ITEM.fullmatch(text)
    return (
        None if match is None else (PublicResponse(_RESPONSE + match[1], match[2]), int(match[3]))
    )
