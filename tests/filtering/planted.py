"""Secrets that nobody has: made by chance, each unlike all others."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from random import Random

_LETTERS = string.ascii_letters + string.digits


def _some(random: Random, count: int, signs: str = _LETTERS) -> str:
    return "".join(random.choices(signs, k=count))


def _key(random: Random, count: int) -> str:
    return _some(random, count, _LETTERS + "_-")


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _jwt(random: Random) -> str:
    header, payload = {"alg": "HS256", "typ": "JWT"}, {"sub": _some(random, random.randint(4, 900))}
    return f"{_part(header)}.{_part(payload)}.{_some(random, 43)}"


def _private_key(random: Random) -> str:
    kind = random.choice(("RSA ", "EC ", "OPENSSH ", ""))
    body = "\n".join(_some(random, 64) for _ in range(random.randint(3, 20)))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


_MADE: tuple[Callable[[Random], str], ...] = (
    lambda random: "AKIA" + _some(random, 16, string.ascii_uppercase + string.digits),
    lambda random: "ghp_" + _some(random, 36),
    lambda random: "glpat-" + _some(random, random.randint(20, 80)),
    lambda random: "xoxb-" + "-".join(_some(random, 12, string.digits) for _ in range(2))
    + "-" + _some(random, 24, string.ascii_lowercase + string.digits),
    lambda random: "sk_live_" + _some(random, 24),
    lambda random: f"sk-proj-{_some(random, 20)}T3BlbkFJ{_some(random, 20)}",
    lambda random: f"sk-proj-{_key(random, 74)}T3BlbkFJ{_key(random, 74)}",
    lambda random: f"sk-ant-api03-{_key(random, 93)}AA",
    lambda random: f"evf_{_some(random, 8, '0123456789abcdef')}_{_key(random, 43)}",
    lambda random: "AIza" + _key(random, 35),
    lambda random: "hf_" + _some(random, 34, string.ascii_letters),
    lambda random: f"SG.{_some(random, 22)}.{_some(random, 43)}",
    lambda random: "pypi-AgEIcHlwaS5vcmc" + _some(random, random.randint(70, 400)),
    lambda random: "AccountKey=" + _some(random, 86) + "==",
    _jwt,
    _private_key,
)  # fmt: skip
KINDS = len(_MADE)


def planted_secret(random: Random, kind: int) -> str:
    """A secret of one of the `KINDS`."""
    return _MADE[kind % KINDS](random)


def core_of(secret: str) -> str:
    """What of a secret must never be seen: its random part, without what all of its kind have."""
    lines = secret.splitlines()
    return lines[1] if len(lines) > 1 else secret[-16:]


def traces_of(secret: str) -> list[str]:
    """Parts of a secret that must not be anywhere: nobody may see half of one."""
    if "\n" in secret or secret.startswith("eyJ"):
        return [core_of(secret)]
    return [core_of(secret), secret[: len(secret) * 3 // 4]]
