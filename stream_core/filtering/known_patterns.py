"""The patterns that come with Evenflow, by their groups.

Those of secrets are detect-secrets': of its plugins the ones whose secrets begin with a fixed text.
Heuristics of entropy and of words nearby would redact what is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from evenflow.stream_core.filtering.groups import Group
from evenflow.stream_core.filtering.pattern import LONGEST_MATCH, Pattern, longest_match

# Of AWS the second one looks for words nearby.
_DETECTORS: tuple[tuple[str, type[RegexBasedDetector], int | None], ...] = (
    ("aws", AWSKeyDetector, 1),
    ("azure", AzureStorageKeyDetector, None),
    ("github", GitHubTokenDetector, None),
    ("gitlab", GitLabTokenDetector, None),
    ("openai", OpenAIDetector, None),
    ("pypi", PypiTokenDetector, None),
    ("sendgrid", SendGridDetector, None),
    ("slack", SlackDetector, None),
    ("square", SquareOAuthDetector, None),
    ("stripe", StripeDetector, None),
    ("twilio", TwilioKeyDetector, None),
)
_MORE = r"[A-Za-z0-9_+/=-]"
# A character, a class, or a repetition without an end.
_ENDLESS = re.compile(r"\\.|\[(?:\\.|[^\]])*\]|\{(?P<least>\d+),\}|(?P<sign>[+*])\??")
_ENDS_THERE = r"(?!\w)"
_BOUNDS = (256, 128, 64, 32, 16)
# A header or payload that is longer has no other dot to wait for.
_LONGEST_JWT_PART = 400
_PEM_BODY = r"(?:\s|\\[nr]){1,8}(?:[A-Za-z0-9+/=]{16}|[A-Za-z-]{3,20}:)"
_PUTTY = "PuTTY"


def bounded(expression: str) -> str:
    """The same expression with an end to each repetition, for at most `LONGEST_MATCH` characters.

    What is longer is redacted piece by piece.
    """
    for most in _BOUNDS:
        shorter = _ENDLESS.sub(partial(_with_end, most), expression)
        if longest_match(shorter) <= LONGEST_MATCH:
            return shorter
    raise ValueError(f"{expression} can't be bounded")


def _with_end(most: int, found: re.Match[str]) -> str:
    if found["least"] is not None:
        least = int(found["least"])
    elif found["sign"] is not None:
        least = int(found["sign"] == "+")
    else:
        return found[0]
    return f"{{{least},{max(least, most)}}}"


def _secrets() -> Iterable[Pattern]:
    yield _private_key()
    yield _jwt()
    for name, detector, count in _DETECTORS:
        for number, known in enumerate(_expressions_of(detector)[:count]):
            # What is longer is redacted, too.
            expression = bounded(known.pattern.removesuffix(_ENDS_THERE))
            if known.flags & re.IGNORECASE:
                expression = f"(?i:{expression})"
            yield Pattern(name if not number else f"{name}_{number + 1}", expression, more=_MORE)


def _expressions_of(detector: type[RegexBasedDetector]) -> tuple[re.Pattern[str], ...]:
    return tuple(detector().denylist)


def _jwt() -> Pattern:
    (known,) = _expressions_of(JwtTokenDetector)
    (header, payload, *_) = known.pattern.split(r"\.")
    part = f"{{1,{_LONGEST_JWT_PART}}}"
    header, payload = header.replace("+", part, 1), payload.removesuffix("+")
    longer = header.replace(part, f"{{{_LONGEST_JWT_PART}}}")
    return Pattern("jwt", rf"{header}\.{payload}|{longer}", more=rf"\.?{_MORE}")


def _private_key() -> Pattern:
    marks = [known.pattern for known in _expressions_of(PrivateKeyDetector)]
    pem = "|".join(mark for mark in marks if not mark.startswith(_PUTTY))
    putty = "|".join(rf"{mark}: [a-z0-9-]{{3,40}}" for mark in marks if mark.startswith(_PUTTY))
    return Pattern(
        "private_key",
        rf"-{{0,5}}(?:{pem})-{{0,5}}{_PEM_BODY}|(?:{putty})",
        until=r"-{5}END [A-Z0-9 ]{1,40}-{5}|Private-MAC: [0-9a-f]{40,64}",
    )


def _passes_luhn(text: str) -> bool:
    digits = [int(sign) for sign in text if sign.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _passes_mod_97(text: str) -> bool:
    signs = "".join(filter(str.isalnum, text)).upper()
    return int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])) % 97 == 1


def _is_ssn(text: str) -> bool:
    area, group, serial = text.split("-")
    return area not in ("000", "666") and group != "00" and serial != "0000"


_NOT_IN_NUMBER = r"(?<![\w.-])"
_OTHERS: Mapping[Group, Pattern] = {
    "email": Pattern(
        "email", r"\b[A-Za-z0-9](?:[\w.%+-]{0,63})@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}\b"
    ),
    "phone": Pattern(
        "phone",
        r"(?<![\w.+-])(?:\+[1-9][0-9]{0,2}[ .-]?)?(?:\([0-9]{2,4}\)[ .-]?|[0-9]{2,4}[ .-])"
        r"[0-9]{3,4}[ .-]?[0-9]{3,4}\b|(?<![\w.+-])\+[1-9][0-9]{7,14}\b",
    ),
    "card": Pattern(
        "card", _NOT_IN_NUMBER + r"[2-6][0-9](?:[ -]?[0-9]){10,16}[0-9]\b", is_valid=_passes_luhn
    ),
    "iban": Pattern(
        "iban",
        r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
        is_valid=_passes_mod_97,
    ),
    "ssn": Pattern("ssn", _NOT_IN_NUMBER + r"[0-8][0-9]{2}-[0-9]{2}-[0-9]{4}\b", is_valid=_is_ssn),
}


def patterns_of(groups: Iterable[Group]) -> tuple[Pattern, ...]:
    """The patterns of some groups."""
    wanted = frozenset(groups)
    secrets = tuple(_secrets()) if "secrets" in wanted else ()
    return (*secrets, *(pattern for name, pattern in _OTHERS.items() if name in wanted))
