"""Adapts the parameters that Evenflow adds or translates to what a model's server accepts.

OpenAI-compatible servers differ. OpenAI's newer models accept `max_completion_tokens` and reject
`max_tokens`; most others accept `max_tokens`. Mistral rejects unknown parameters, among them
`stream_options`; OpenAI's reasoning models reject `parallel_tool_calls`. After such an error the
request is repeated without the parameter, or with its other name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Self

from evenflow.fargate_handler.settings.model_values import (
    IMAGE_URL,
    LENGTHS,
    OPTIONAL_PARAMETERS,
    ROLES,
    STREAM_OPTIONS,
    profile_words,
)
from evenflow.fargate_handler.token_sources.conversation_forms import streamed_parameters
from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.base.errors import UnsupportedByModel

_ROLE = "role"
# Their values are Evenflow's alone.
_OURS = frozenset((STREAM_OPTIONS, _ROLE))

# Marks an error about a value: the server may accept another value.
_VALUE = "value"
_ABOUT_A_VALUE = re.compile(r"(?:un)?supported[ _]values?|invalid[ _]value", re.IGNORECASE)
_REFUSED = re.compile(
    r"un-?support|unrecogni[sz]ed|unknown|unexpected|deprecated|no longer|additional propert"
    r"|(?:not|n't) (?:\w+ )?(?:support|implement|permit|allow|accept|recogni[sz]ed|available)"
    r"|(?:not|n't) (?:\w+ )?be used|not (?:a valid|one of)|extra[_ ](?:inputs?|fields?|forbid)"
    r"|invalid (?:field|param|argument|key|role)|cannot find field|incorrect role",
    re.IGNORECASE,
)
# These words may be about a value, too.
_INVALID = re.compile(r"not valid|invalid", re.IGNORECASE)
_LIMIT = re.compile(
    r"value|must be|should be|too (?:large|small|long|high|low)|at (?:most|least)|between"
    r"|greater|less than|exceed|maximum|minimum|expected|range",
    re.IGNORECASE,
)


def _named(name: str) -> re.Pattern[str]:
    """A pattern for a parameter's name in an error, which some servers write in camel case."""
    return re.compile(rf"(?<![a-z_]){name.replace('_', '_?')}(?![a-z_])", re.IGNORECASE)


_NAMED = {name: _named(name) for name in (*LENGTHS, STREAM_OPTIONS, *OPTIONAL_PARAMETERS)}
_NAMED[_ROLE] = re.compile(
    r"\brole\b.*\b(?:system|developer)\b|\b(?:system|developer)\b.*\brole\b"
    r"|(?:incorrect|unexpected|invalid|unknown) (?:message )?role\b",
    re.IGNORECASE,
)


def rejected_parameters(words: str, param: str | None = None) -> frozenset[str]:
    """The parameters in a server's error that Evenflow adds or translates.

    Args:
        words: all words of the error.
        param: the parameter that the error is about. Then no word for a rejection is needed.
    """
    names = {name for name, pattern in _NAMED.items() if pattern.search(words)}
    is_value = _ABOUT_A_VALUE.search(words) is not None
    if not _REFUSED.search(words):
        if not _INVALID.search(words):
            names = {name for name in names if param and _NAMED[name].match(param)}
        if _LIMIT.search(words):
            names &= _OURS
        is_value = is_value or not names.isdisjoint(OPTIONAL_PARAMETERS)
    if is_value and names - _OURS and _ROLE not in names:
        names.add(_VALUE)
    return frozenset(names)


def is_about_a_value(rejected_names: frozenset[str]) -> bool:
    """Whether only the value was rejected, so that the error does not apply to other requests."""
    return _VALUE in rejected_names


@dataclass(frozen=True, slots=True)
class ServerProfile:
    """How requests are written for one model.

    Args:
        length: the name of the parameter that bounds the answer. Empty: that of each protocol.
        instructions: the role of instructions.
        left_out: parameters that the server rejects.
        image_urls: whether the server accepts images by their address.
        tried: names that the server rejected.
    """

    length: str = ""
    instructions: str = "system"
    left_out: frozenset[str] = frozenset()
    image_urls: bool = True
    tried: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `max_completion_tokens,developer,-stream_options`.

        Raises:
            ValueError: it has an unknown word.
        """
        profile = cls()
        for word in profile_words(text):
            if word in LENGTHS:
                profile = replace(profile, length=word)
            elif word in ROLES:
                profile = replace(profile, instructions=word)
            elif word == f"-{IMAGE_URL}":
                profile = replace(profile, image_urls=False)
            else:
                profile = replace(profile, left_out=profile.left_out | {word[1:]})
        return profile

    def parameters(self, request: ModelRequest, most_tokens: int | None) -> dict[str, Any]:
        """The parameters of a request's body, but for the model and the messages.

        Args:
            most_tokens: the longest answer. None: no limit but the request's.
        """
        options = request.options
        parameters = options.within(most_tokens).parameters()
        # A name that the client chose stays, so that an error names what the client sent.
        if self.length and (request.translated or options.longest is None):
            values = [parameters.pop(name) for name in LENGTHS if name in parameters]
            parameters |= {self.length: values[0]} if values else {}
        if request.translated:
            for name in self.left_out:
                parameters.pop(name, None)
        return streamed_parameters(parameters, with_usage=STREAM_OPTIONS not in self.left_out)

    def name_instructions(self, messages: list[dict[str, Any]]) -> None:
        """Set the role of instructions to the one that the model accepts."""
        if self.instructions != ROLES[0]:
            for message in messages:
                if message["role"] in ROLES:
                    message["role"] = self.instructions

    def check_images(self, request: ModelRequest) -> None:
        """Check that the server accepts the images of a request.

        Raises:
            UnsupportedByModel: an image is an address, which the server does not accept.
        """
        if self.image_urls:
            return
        images = (part.get(IMAGE_URL) for turn in request.turns for part in turn.parts)
        for image in images:
            url = image.get("url") if isinstance(image, dict) else image
            if isinstance(url, str) and not url.startswith("data:"):
                raise UnsupportedByModel(
                    "the model's server accepts images as data, not by their address; nothing was "
                    "generated. Send the image as a data URL",
                    code="unsupported_value",
                    param=IMAGE_URL,
                )

    def after(
        self, rejected_names: frozenset[str], request: ModelRequest, most_tokens: int | None
    ) -> ServerProfile | None:
        """The profile for repeating a rejected request. None: the request would be the same.

        Args:
            refused: the parameters that the server rejected.
            most_tokens: as in `parameters`.
        """
        sent_parameters = self.parameters(request, most_tokens)
        # The error may also name parameters to use instead.
        rejected_names &= sent_parameters.keys() | {_ROLE}
        tried = self.tried | rejected_names
        length, instructions = self.length, self.instructions
        for name, other_name in (LENGTHS, LENGTHS[::-1]):
            if name in rejected_names and other_name not in tried:
                length = other_name
        if _ROLE in rejected_names - self.tried:
            instructions = ROLES[1] if instructions == ROLES[0] else ROLES[0]
        adapted = replace(
            self,
            length=length,
            instructions=instructions,
            left_out=self.left_out | (rejected_names & {STREAM_OPTIONS, *OPTIONAL_PARAMETERS}),
            tried=tried,
        )
        is_same = instructions == self.instructions or not any(
            turn.role in ROLES for turn in request.turns
        )
        return (
            None
            if is_same and adapted.parameters(request, most_tokens) == sent_parameters
            else adapted
        )
