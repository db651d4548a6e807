"""The patterns that come with Evenflow, by their groups.

Those of secrets are `service_keys`, and detect-secrets': of its plugins the ones whose secrets
begin with a fixed text. Heuristics of entropy and of words nearby would redact what is none.

Letters and digits are those of ASCII where a match must not be part of a word: Chinese and Japanese
have no spaces. Spaces and dashes are all that models write between the parts of a number.
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
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from evenflow.stream_core.filtering.groups import Group
from evenflow.stream_core.filtering.iban import length_of_iban
from evenflow.stream_core.filtering.pattern import LONGEST_MATCH, Pattern, longest_match
from evenflow.stream_core.filtering.service_keys import not_behind, service_keys

# Of AWS the second one looks for words nearby.
_DETECTORS: tuple[tuple[str, type[RegexBasedDetector], int | None], ...] = (
    ("aws", AWSKeyDetector, 1),
    ("azure", AzureStorageKeyDetector, None),
    ("github", GitHubTokenDetector, None),
    ("gitlab", GitLabTokenDetector, None),
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
_JWT_PART = r"[A-Za-z0-9_=-]"
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
    for name, expression in service_keys().items():
        yield Pattern(name, expression, more=_MORE)
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
    part, most = _JWT_PART, _LONGEST_JWT_PART
    return Pattern("jwt", rf"eyJ{part}{{1,{most}}}+\.?{part}", more=rf"\.?{_MORE}")


def _private_key() -> Pattern:
    marks = [known.pattern for known in _expressions_of(PrivateKeyDetector)]
    pem = "|".join(mark for mark in marks if not mark.startswith(_PUTTY))
    putty = "|".join(rf"{mark}: [a-z0-9-]{{3,40}}" for mark in marks if mark.startswith(_PUTTY))
    return Pattern(
        "private_key",
        rf"-{{0,5}}(?:{pem})-{{0,5}}{_PEM_BODY}|(?:{putty})",
        until=r"-{5}END [A-Z0-9 ]{1,40}-{5}|Private-MAC: [0-9a-f]{40,64}",
    )


# Those of ASCII, and the wide ones among Chinese and Japanese characters.
_DIGITS = r"0-9\uff10-\uff19"
_D = rf"[{_DIGITS}]"
_SPACES = r" \u00a0\u2002-\u200a\u202f\u205f\u3000"
_DASHES = r"\-\u2010-\u2015\u2212\uff0d"
_ALNUM = rf"A-Za-z{_DIGITS}"
_ENDS = rf"(?![{_ALNUM}])"
# Behind the first character of a number, where it takes no time at letters: it is in no word (the
# letter of an escape, as in `\\n` in JSON, is none), and in no longer number.
_IN_NO_NUMBER = rf"(?:(?<![{_ALNUM}].)|(?<=\\[nrt].))(?<![{_DIGITS}][.{_DASHES}].)"
# Of scripts that put spaces between words: Latin, Greek, Cyrillic.
_LETTERS = r"A-Za-z\u00c0-\u02af\u0370-\u052f\u1e00-\u1fff"
_LABEL = rf"[0-9{_LETTERS}-]{{1,63}}+"
_EMAIL = (
    rf"{not_behind(f'0-9{_LETTERS}')}[0-9{_LETTERS}][0-9{_LETTERS}._%+-]{{0,63}}+"
    rf"@(?:{_LABEL}\.){{1,4}}[{_LETTERS}]{{2,24}}(?![0-9{_LETTERS}])"
)
_BETWEEN = rf"[.{_SPACES}{_DASHES}]"
_LOCAL = rf"{_D}{{3,4}}{_BETWEEN}?{_D}{{3,4}}{_ENDS}"
_AREA = rf"(?:\({_D}{{2,4}}\){_BETWEEN}?|{_D}{{2,4}}{_BETWEEN})"
_PHONE = "|".join(
    (
        rf"\+{_IN_NO_NUMBER}[1-9]{_D}{{0,2}}{_BETWEEN}?{_AREA}{_LOCAL}",
        rf"\+{_IN_NO_NUMBER}[1-9]{_D}{{7,14}}{_ENDS}",
        rf"\({_IN_NO_NUMBER}(?<!\+.){_D}{{2,4}}\){_BETWEEN}?{_LOCAL}",
        rf"{_D}{_IN_NO_NUMBER}(?<!\+.){_D}{{1,3}}{_BETWEEN}{_LOCAL}",
    )
)
_CARD = (
    rf"[2-6\uff12-\uff16]{_IN_NO_NUMBER}{_D}(?:(?:[{_SPACES}{_DASHES}]?{_D}){{10,16}}{_D}"
    rf"|{_D}{{2}}(?:{_BETWEEN}{{1,2}}{_D}{{4}}){{3}}){_ENDS}"
)
# As cards are written, whatever follows: a date, or the number on their back.
_ON_CARD = re.compile(r"\d{4}(?:\D{1,2}\d{4}){3}(?!\d)|\d{4}\D\d{6}\D\d{4,5}(?!\d)|\d{13,19}(?!\d)")
_SSN = (
    rf"[0-8\uff10-\uff18]{_IN_NO_NUMBER}{_D}{{2}}"
    rf"(?:[{_DASHES}]{_D}{{2}}[{_DASHES}]|[{_SPACES}]{_D}{{2}}[{_SPACES}]){_D}{{4}}{_ENDS}"
)
_IBAN = (
    rf"{not_behind(_ALNUM)}[A-Za-z]{{2}}[0-9]{{2}}(?:[{_SPACES}{_DASHES}]?[A-Za-z0-9]{{4}}){{2,7}}"
    rf"(?:[{_SPACES}{_DASHES}]?[A-Za-z0-9]{{1,3}})?"
)


def _length_of_card(text: str) -> int:
    found = _ON_CARD.match(text)
    ends = (len(text),) if found is None else (found.end(), len(text))
    return next((end for end in ends if _passes_luhn(text[:end])), 0)


def _passes_luhn(text: str) -> bool:
    digits = [int(sign) for sign in text if sign.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _length_of_ssn(text: str) -> int:
    area, group, serial = int(text[:3]), int(text[4:6]), int(text[7:])
    return len(text) if area not in (0, 666) and group and serial else 0


_OTHERS: Mapping[Group, Pattern] = {
    "email": Pattern("email", _EMAIL),
    "card": Pattern("card", _CARD, valid_length=_length_of_card),
    "iban": Pattern("iban", _IBAN, valid_length=length_of_iban),
    "ssn": Pattern("ssn", _SSN, valid_length=_length_of_ssn),
    # Behind all others, of which it may be a part.
    "phone": Pattern("phone", _PHONE),
}


def patterns_of(groups: Iterable[Group]) -> tuple[Pattern, ...]:
    """The patterns of some groups."""
    wanted = frozenset(groups)
    secrets = tuple(_secrets()) if "secrets" in wanted else ()
    return (*secrets, *(pattern for name, pattern in _OTHERS.items() if name in wanted))
