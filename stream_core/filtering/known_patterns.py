"""The patterns that come with Evenflow, by their groups.

Those of secrets are `service_keys`, and those of detect-secrets' plugins with secrets that
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
from evenflow.stream_core.filtering.pattern import LONGEST_MATCH, Pattern, longest_match

# The registry of ISO 13616: countries, and the lengths of their numbers.
_REGISTRY = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28
EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26
IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28
NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25
SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
"""
_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _REGISTRY.split()}
_CHECK_DIGITS = 4
_ESCAPE = len("\\n")


def length_of_iban(text: str) -> int:
    """The length of the IBAN with which the text begins, including separators. 0: there is none.

    Words may follow after a space.
    """
    first = _ESCAPE if text.startswith("\\") else 0
    places = [place for place, sign in enumerate(text) if place >= first and sign.isalnum()]
    length = _LENGTHS.get(text[first : first + 2].upper(), 0)
    if not length or len(places) < length:
        return 0
    end = places[length - 1] + 1
    if text[end : end + 1].isalnum():
        return 0
    signs = "".join(text[place] for place in places[:length]).upper()
    number = signs[_CHECK_DIGITS:] + signs[:_CHECK_DIGITS]
    return end if int("".join(str(int(sign, 36)) for sign in number)) % 97 == 1 else 0


_K = r"[A-Za-z0-9_-]"
_HEX = r"[0-9a-f]"

_ANYWHERE: Mapping[str, str] = {
    "anthropic": rf"sk-ant-{_K}{{20}}",
    "evenflow": rf"evf_{_HEX}{{8}}_{_K}{{20}}",
    "github_pat": r"github_pat_[A-Za-z0-9_]{40}",
    "google": rf"AIza{_K}{{30}}|GOCSPX-{_K}{{20}}",
    "hugging_face": r"hf_[A-Za-z0-9]{30}",
    "openai": rf"sk-(?:proj|svcacct|admin|service|None)-{_K}{{20}}",
    "openrouter": rf"sk-or-{_K}{{20}}",
    "stripe_test": r"(?:sk|rk)_test_[0-9a-zA-Z]{24}",
}
"""By service. They match anywhere, since no word contains their beginnings."""

_AFTER_WORDS: tuple[tuple[str, str], ...] = (
    ("ABSK", r"[A-Za-z0-9+/]{40}"),  # Bedrock
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]{50}"),
    ("AT", r"[A-Z]TT3[A-Za-z0-9_=-]{40}"),  # Atlassian
    ("HRKU-", rf"{_K}{{36}}"),  # Heroku
    ("LTAI", r"[A-Za-z0-9]{20}"),  # Alibaba
    ("NRAK-", r"[A-Z0-9]{27}"),  # New Relic
    ("PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),  # Postman
    ("api_org_", r"[A-Za-z0-9]{30}"),  # Hugging Face
    ("bedrock-api-key-", r"[A-Za-z0-9+/]{40}"),
    ("csk-", r"[a-z0-9]{40}"),  # Cerebras
    ("dapi", rf"{_HEX}{{32}}"),  # Databricks
    ("dckr_", rf"[op]at_{_K}{{20}}"),  # Docker
    ("discord", rf"(?:app)?\.com/api/webhooks/[0-9]{{15,20}}/{_K}{{40}}"),
    ("do", rf"[opr]_v1_{_HEX}{{40}}"),  # DigitalOcean
    ("dp.", r"(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40}"),  # Doppler
    ("e2b_", rf"{_HEX}{{40}}"),
    ("fc-", rf"{_HEX}{{32}}"),  # Firecrawl
    ("fig", rf"[dor]_{_K}{{40}}"),  # Figma
    ("fm", r"[12][ar]?_[A-Za-z0-9+/]{60}"),  # Fly
    ("fo1_", rf"{_K}{{40}}"),
    ("gl", rf"(?:ffct|rtr|soat|wt)-{_K}{{20}}"),  # GitLab
    ("glc_eyJ", r"[A-Za-z0-9+/]{32}"),  # Grafana
    ("glsa_", r"[A-Za-z0-9]{32}"),
    ("gsk_", r"[A-Za-z0-9]{40}"),  # Groq
    ("hv", rf"[bsr]\.{_K}{{24}}"),  # Vault
    ("jina_", r"[A-Za-z0-9]{40}"),
    ("lin_", r"(?:api|oauth)_[A-Za-z0-9]{40}"),  # Linear
    ("lsv2_", rf"(?:pt|sk)_{_HEX}{{32}}"),  # LangSmith
    ("npm_", r"[A-Za-z0-9]{36}"),
    ("ntn_", r"[A-Za-z0-9]{40}"),  # Notion
    ("nvapi-", rf"{_K}{{40}}"),
    ("ops_eyJ", r"[A-Za-z0-9+/_-]{40}"),  # 1Password
    ("pat", rf"[A-Za-z0-9]{{14}}\.{_HEX}{{40}}"),  # Airtable
    ("pcsk_", rf"{_K}{{40}}"),  # Pinecone
    ("ph", r"[sx]_[A-Za-z0-9]{40}"),  # PostHog
    ("pplx-", r"[A-Za-z0-9]{40}"),
    ("pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32}"),
    ("pul-", rf"{_HEX}{{40}}"),  # Pulumi
    ("r8_", r"[A-Za-z0-9]{37}"),  # Replicate
    ("rubygems_", rf"{_HEX}{{48}}"),
    ("sb_secret_", rf"{_K}{{20}}"),  # Supabase
    ("sbp_", rf"{_HEX}{{40}}"),
    ("secret_", r"[A-Za-z0-9]{43}"),  # Notion
    ("shp", r"(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),  # Shopify
    ("sk-", r"[A-Za-z0-9]{32}"),  # OpenAI before projects, DeepSeek, Moonshot and others
    # OpenAI with the name of a project or an account, which has the same characters as a key.
    ("sk-", rf"{_K}{{8,100}}?T3BlbkFJ{_K}{{8}}"),
    ("sk-lf-", rf"{_HEX}{{8}}-{_K}{{20}}"),  # Langfuse
    ("sk_", rf"{_HEX}{{48}}"),  # ElevenLabs
    ("sntry", r"[su]_[A-Za-z0-9+/_-]{40}"),
    ("tgp_v1_", rf"{_K}{{40}}"),  # Together
    ("tvly-", rf"{_K}{{20}}"),
    ("v1.0-", rf"{_HEX}{{24}}-{_HEX}{{64}}"),  # Cloudflare
    ("whsec_", r"[A-Za-z0-9+/]{24}"),  # Stripe
    ("xai-", r"[A-Za-z0-9]{40}"),
    ("xapp-", r"[0-9]-[A-Z0-9]{5,20}-[0-9]{5,20}-[a-z0-9]{20}"),  # Slack
    ("xkeysib-", rf"{_HEX}{{40}}"),  # Brevo
    ("xoxe.xox", r"[bp]-[A-Za-z0-9-]{30}"),
    ("ya29.", rf"{_K}{{30}}"),  # Google
)
"""Beginnings and the rest. No letter or digit may precede them, since words end with some of them.
"""


def not_behind(characters: str) -> str:
    """An expression for a place that none of these characters precedes.

    The letter of an escape, as in `\\n` in JSON, is no letter, and belongs to the match.
    """
    return rf"(?:\\[nrt]|(?<![{characters}]))"


def service_keys() -> Mapping[str, str]:
    """Expressions by their names."""
    rests: dict[str, list[str]] = {}
    for first_letters, later_letters in _AFTER_WORDS:
        rests.setdefault(first_letters[0], []).append(re.escape(first_letters[1:]) + later_letters)
    # By first letters, so that few of them are tried at a place.
    after_words = "|".join(f"{first}(?:{'|'.join(later)})" for first, later in rests.items())
    return {**_ANYWHERE, "service_key": f"{not_behind('A-Za-z0-9')}(?:{after_words})"}


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


def _with_end(most: int, match: re.Match[str]) -> str:
    if match["least"] is not None:
        least = int(match["least"])
    elif match["sign"] is not None:
        least = int(match["sign"] == "+")
    else:
        return match[0]
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
# After the first character of a number, where it costs no time at letters: it is in no word (the
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
    match = _ON_CARD.match(text)
    ends = (len(text),) if match is None else (match.end(), len(text))
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
    # After all others, since it may be a part of them.
    "phone": Pattern("phone", _PHONE),
}


def patterns_of(groups: Iterable[Group]) -> tuple[Pattern, ...]:
    """The patterns of some groups."""
    group_names = frozenset(groups)
    secrets = tuple(_secrets()) if "secrets" in group_names else ()
    return (*secrets, *(pattern for name, pattern in _OTHERS.items() if name in group_names))
