"""The settings of one's own identity provider (OpenID Connect)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evenflow.stream_core.auth.allowed_hosts import is_loopback
from evenflow.stream_core.base.channel import NAME_PATTERN

PREFIX = "EVENFLOW_OIDC_"
_URL = re.compile(
    r"(https?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(/[^\s?#]*)?(\?[^\s#]*)?"
)
_DISCOVERY = "/.well-known/openid-configuration"


def checked_url(url: str) -> str:
    """Check an address of the identity provider, so that no attacker on the way can replace keys.

    Raises:
        ValueError: it is no URL with TLS, or on this machine.
    """
    match = _URL.fullmatch(url)
    if match is None or not (match[1] == "https" or is_loopback(match[2].strip("[]"))):
        raise ValueError(
            "must be an https:// address, as the identity provider names it; http:// is for this "
            f"machine alone; {url[:200]!r} is none"
        )
    return url


def _checked_issuer(url: str) -> str:
    if "?" in url:
        raise ValueError(f"must have no query; {url[:200]!r} has one")
    return checked_url(url)


ProviderUrl = Annotated[str, AfterValidator(checked_url)]
Issuer = Annotated[str, AfterValidator(_checked_issuer)]
Claim = Annotated[str, Field(max_length=256)]


class OidcSettings(BaseModel):
    """The tokens that are believed, and what they say of their bearer.

    Args:
        issuer: as tokens have it in `iss`, to the letter.
        audience: the required audience of tokens: `aud`, or `client_id` of Cognito's access tokens.
        tenant_claim: the claim with the tenant's name. Empty: all are of `tenant`.
        any_tenant: whether a claim may also name a tenant without a record, though others have one.
        user_claim: the claim with the user's name.
        skew_seconds: how far the clocks may differ.
        keys_url: the address of the keys. None: that in the issuer's discovery document.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Issuer
    audience: str = Field(min_length=1, max_length=1_024)
    tenant_claim: Claim = ""
    tenant: str = Field("public", pattern=NAME_PATTERN)
    any_tenant: bool = False
    user_claim: Claim = Field("sub", min_length=1)
    skew_seconds: float = Field(60, ge=0, le=600)
    keys_url: ProviderUrl | None = None

    @property
    def needs_record(self) -> bool:
        """Whether the tenant that a token names needs a record, once there are records."""
        return bool(self.tenant_claim) and not self.any_tenant

    @property
    def discovery_url(self) -> str:
        """The address of the issuer's discovery document."""
        return self.issuer.removesuffix("/") + _DISCOVERY

    def to_variables(self) -> dict[str, str]:
        """The variables that `from_variables` reads."""
        settings = self.model_dump(exclude_defaults=True)
        return {f"{PREFIX}{name.upper()}": _written(value) for name, value in settings.items()}

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> Self | None:
        """Read the variables `EVENFLOW_OIDC_…`. None: none is set.

        Raises:
            ValueError: one is missing or wrong. The message names it.
        """
        settings = {
            name: variables[PREFIX + name.upper()]
            for name in cls.model_fields
            if variables.get(PREFIX + name.upper())
        }
        if not settings:
            return None
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            variable = PREFIX + str(first["loc"][0]).upper()
            raise ValueError(f"{variable}: {first['msg']}") from None


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
