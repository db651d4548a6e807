"""The order of the signing keys, and how one rotation changes it.

The secret holds `[current, previous, next]`: `current` signs, all three verify. A rotation makes it
`[next, current, fresh]`. So a key signs only after it has been known to everybody for a whole rotation period, and goes
on verifying for a whole period after its last signature: whoever reads the secret somewhat late issues and accepts the
same tokens, as long as that lateness and a token's life together are shorter than a period.
"""

from __future__ import annotations

import time

from stream_core.channel import Channel
from stream_core.session_token import SessionTokens

_MOST_KEYS = 3
_TOKEN_SECONDS = 60


class RotationRefused(Exception):
    """The keys cannot be rotated without logging somebody out. Nothing was changed; the message says what to mend."""


def rotated(keys: dict[str, str], fresh_kid: str, fresh_key: str) -> dict[str, str]:
    """The keys after a rotation, the signing one first.

    Args:
        keys: key id → key: `[current]` as the secret is created, `[current, next]` after its first rotation, or
            `[current, previous, next]`. A lone key goes on signing: nobody knows another one yet.

    Raises:
        RotationRefused: there is no key or more than three, or the fresh key's id is taken.
    """
    if not 1 <= len(keys) <= _MOST_KEYS:
        raise RotationRefused(
            f"the secret has {len(keys)} keys, but rotation keeps {_MOST_KEYS}: current, previous, next. "
            "Leave those in it whose tokens are still alive, the signing one first"
        )
    if fresh_kid in keys:
        raise RotationRefused(f"the id {fresh_kid!r} is taken; rotate again")
    (current, current_key), *others = keys.items()
    signing = dict(others[-1:])
    return {**signing, current: current_key, fresh_kid: fresh_key}


def check_tokens(keys: dict[str, bytes], others: dict[str, bytes]) -> None:
    """Tokens issued with either set of keys must be valid with both: some processes hold one, some the other.

    Raises:
        AuthenticationFailed: they are not.
    """
    now = time.time()
    sets = [SessionTokens(keys), SessionTokens(others)]
    for issuer in sets:
        token, _ = issuer.issue(Channel("rotation", "test", "token"), now, _TOKEN_SECONDS)
        for verifier in sets:
            verifier.verify(token, now)
