"""Settings of access: cookies, signing keys, the keys of tenants, and an identity provider."""

from __future__ import annotations

import secrets
from typing import Annotated, Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from evenflow.fargate_handler.settings.environment import Secret
from evenflow.stream_core.auth.oidc_settings import Claim, Issuer, OidcSettings, ProviderUrl
from evenflow.stream_core.base.channel import NAME_PATTERN
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT

_SHORTEST_SECRET = 32
_OIDC = "oidc_"


class AccessSettings(BaseModel):
    """The tokens and keys that open sessions."""

    cookie_secure: bool = Field(
        False, description="whether cookies are for HTTPS only; true wherever clients use HTTPS"
    )
    token_keys_secret: str | None = Field(
        None,
        description=(
            "name or ARN of the secret with the signing keys in Secrets Manager, instead of "
            "token_keys"
        ),
    )
    token_keys: Annotated[Secret, NoDecode] = Field(
        default_factory=lambda: SecretStr(f"local:{secrets.token_urlsafe(32)}"),
        description=(
            "keys that sign session tokens, `kid:secret,kid:secret`; the first signs; secrets of "
            "32 characters or more (secret; default: with store=sqlite the key in the file, "
            "otherwise a new one at each start)"
        ),
    )
    tenant_keys_secret: str | None = Field(
        None, description="name or ARN of the secret with the tenants' keys, instead of tenant_keys"
    )
    open_tenant: str | None = Field(
        None,
        pattern=NAME_PATTERN,
        description="the tenant that opens sessions without a key, though tenants have keys",
    )
    tenant_keys: dict[
        Annotated[str, Field(pattern=NAME_PATTERN)], Annotated[Secret, Field(min_length=16)]
    ] = Field(
        {},
        description=(
            'tenants that need a key, JSON `{"tenant": "key"}`, keys of 16 characters or more '
            "(secret)"
        ),
    )
    oidc_issuer: Issuer | None = Field(
        None,
        description=(
            "the issuer of callers' identity tokens, exactly as in their `iss`: "
            "`https://login.example.com/`; default: none"
        ),
    )
    oidc_audience: str = Field(
        "",
        max_length=1_024,
        description=(
            "the audience of the issuer's tokens: their `aud`, or `client_id` of Cognito's access "
            "tokens (with oidc_issuer)"
        ),
    )
    oidc_tenant_claim: Claim = Field(
        "", description="the claim with the tenant's name; default: all are of oidc_tenant"
    )
    oidc_tenant: str = Field(
        OPEN_TENANT,
        pattern=NAME_PATTERN,
        description="the tenant of the issuer's tokens, where no claim names one",
    )
    oidc_any_tenant: bool = Field(
        False,
        description=(
            "whether oidc_tenant_claim may also name tenants without a record, though others have "
            "one"
        ),
    )
    oidc_user_claim: Claim = Field(
        "sub", min_length=1, description="the claim with the user's name"
    )
    oidc_skew_seconds: float = Field(
        60, ge=0, le=600, description="how far the issuer's clock may differ"
    )
    oidc_keys_url: ProviderUrl | None = Field(
        None,
        description=(
            "where the issuer's keys are (JWKS); default: where its "
            "/.well-known/openid-configuration says"
        ),
    )

    @field_validator("token_keys")
    @classmethod
    def _readable_keys(cls, keys: SecretStr) -> SecretStr:
        kids: set[str] = set()
        for entry in keys.get_secret_value().split(","):
            kid, _, secret = entry.partition(":")
            if kid in kids:
                raise ValueError("names a key id twice")
            kids.add(kid)
            if not kid or len(secret) < _SHORTEST_SECRET:
                raise ValueError(
                    f"must be kid:secret,kid:secret with secrets of {_SHORTEST_SECRET} characters "
                    "or more"
                )
        return keys

    @model_validator(mode="after")
    def _tenants_have_one_list(self) -> Self:
        if self.tenant_keys and self.tenant_keys_secret is not None:
            raise ValueError(
                "tenant_keys_secret is set beside tenant_keys, and only one of them can be"
            )
        return self

    @model_validator(mode="after")
    def _issuer_has_an_audience(self) -> Self:
        set_names = {name for name in self.model_fields_set if name.startswith(_OIDC)}
        if self.oidc_issuer is None and set_names:
            raise ValueError(f"{min(set_names)} is set without oidc_issuer, and has no effect")
        if self.oidc_issuer is not None and not self.oidc_audience:
            raise ValueError(
                "oidc_audience must be set beside oidc_issuer: the audience of its tokens"
            )
        return self

    @property
    def oidc(self) -> OidcSettings | None:
        """The identity provider that is trusted. None: none."""
        if self.oidc_issuer is None:
            return None
        names = OidcSettings.model_fields
        return OidcSettings(**{name: getattr(self, f"{_OIDC}{name}") for name in names})

    def signing_keys_beside(self, stored: str | None) -> dict[str, bytes]:
        """The signing keys that are set. Without them that of the store, if it has one.

        Args:
            stored: the key that the store keeps.
        """
        if stored is None or "token_keys" in self.model_fields_set:
            return self.signing_keys
        return {"store": stored.encode()}

    @property
    def signing_keys(self) -> dict[str, bytes]:
        """The secrets by key id, the signing one first."""
        entries = (entry.partition(":") for entry in self.token_keys.get_secret_value().split(","))
        return {kid: secret.encode() for kid, _, secret in entries}

    @property
    def keys_of_tenants(self) -> dict[str, str]:
        """The keys by tenant."""
        return {tenant: key.get_secret_value() for tenant, key in self.tenant_keys.items()}
