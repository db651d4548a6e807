"""Only what came through CloudFront is answered, since a web ACL stands there and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger

from evenflow.functions.cached_secret import CachedSecret
from evenflow.stream_aws.keys import parse_key_object
from evenflow.stream_core.auth.session_token import key_matches
from evenflow.stream_core.base.errors import HostNotAllowed
from evenflow.stream_core.http.routes import EDGE_KEY_HEADER

_SHORTEST = 32


def parse_edge_keys(secret_string: str) -> dict[str, str]:
    """Read the keys that CloudFront may show, by name.

    Raises:
        KeysUnreadable: the secret is wrong. The message has no key.
    """
    return parse_key_object(secret_string, called="edge keys", shortest=_SHORTEST)


class EdgeKeys:
    """The keys, one of which CloudFront adds to each request. Several, so that they can change.

    Args:
        client: a boto3 client of Secrets Manager.
    """

    def __init__(self, client: Any, secret_id: str, logger: Logger) -> None:
        self._keys = CachedSecret(client, secret_id, parse_edge_keys, logger)

    def check(self, headers: Mapping[str, str]) -> None:
        """Check that a request came through CloudFront.

        Args:
            headers: by their names in lower case.

        Raises:
            HostNotAllowed: it did not.
            Overloaded: the keys cannot be read.
        """
        given = headers.get(EDGE_KEY_HEADER)
        # All are compared, so that the time it takes does not tell which one it is.
        matching = [key for key in self._keys.get().values() if key_matches(given, key)]
        if not matching:
            raise HostNotAllowed(
                "this address is not for clients; nothing was done, call the address of the "
                "CloudFront distribution",
                code="host_not_allowed",
            )
