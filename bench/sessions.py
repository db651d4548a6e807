"""Session tokens for the load, signed here with the server's key before the clock starts."""

import secrets
from time import time

from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel

KEY_ID = "bench"
SECRET = secrets.token_urlsafe(32)  # of this process; what it starts is given the same
TOKEN_SECONDS = 3_600


def session_tokens(
    count: int, secret: str = SECRET, tenant: str = "public", key: str = ""
) -> list[str]:
    """Tokens of `count` new sessions of a tenant. `key`: the id of its key that opened them."""
    signer = SessionTokens({KEY_ID: secret.encode()})
    run = secrets.token_hex(4)
    channels = (Channel(tenant, "demo", f"ses_{run}{number:014d}") for number in range(count))
    return [signer.issue(channel, time(), TOKEN_SECONDS, key=key)[0] for channel in channels]


def tickets(token: str, response_id: str, count: int) -> list[str]:
    """As many times a ticket that reads a response of the session with this token."""
    signer = SessionTokens({KEY_ID: SECRET.encode()})
    channel = signer.verify(token, time()).channel
    ticket, _ = signer.issue(channel, time(), TOKEN_SECONDS, only_for=response_id)
    return [ticket] * count
