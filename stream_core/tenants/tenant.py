"""A tenant's record: its keys, its share of the model, and its bounds."""

from __future__ import annotations

import hashlib
import secrets
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.channel import NAME_PATTERN

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
_KEY_PREFIX = "evf"
_SECRET_BYTES = 32


class Scope(StrEnum):
    """What a key may do."""

    SESSIONS = "sessions"
    """`POST /session`: open sessions."""
    API = "api"
    """`/v1` and the other calls of a model without a session."""
    READ = "read"
    """Read answers and usage, and nothing else."""


EVERY_SCOPE = frozenset(Scope)


class QuotaLimits(BaseModel):
    """The bounds of a tenant, a key or a user. None: no bound.

    Args:
        tokens_per_minute: of input and output together.
        answers_at_once: accepted messages whose answers have not ended, on all nodes.
        dollars_per_month: by EVENFLOW_MODEL_PRICES, in a calendar month of UTC.
    """

    model_config = ConfigDict(frozen=True)

    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    input_tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    output_tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    answers_at_once: Annotated[int, Field(ge=1)] | None = None
    connections: Annotated[int, Field(ge=1)] | None = None
    tokens_per_day: Annotated[int, Field(ge=1)] | None = None
    dollars_per_month: Annotated[float, Field(gt=0)] | None = None


NO_LIMITS = QuotaLimits()


class ApiKey(BaseModel):
    """A key of a tenant, without its secret.

    Args:
        id: its name, which is not secret.
        digest: SHA-256 of the key, in hexadecimal digits. A random key needs no slower hash.
        expires_at: seconds since the epoch. None: never.
        account: the key whose limits and budgets it counts to: the first one of its rotations.
            Empty: itself.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    digest: str
    scopes: frozenset[Scope] = EVERY_SCOPE
    expires_at: float | None = None
    limits: QuotaLimits = NO_LIMITS
    account: str = ""

    @property
    def account_id(self) -> str:
        """The id of the key whose limits and budgets it counts to."""
        return self.account or self.id

    def may(self, scope: Scope) -> bool:
        """Whether the key has a scope. `api` includes `read`."""
        return scope in self.scopes or (scope is Scope.READ and Scope.API in self.scopes)

    def is_valid(self, now: float) -> bool:
        """Whether it is valid at `now`, in seconds since the epoch."""
        return self.expires_at is None or now < self.expires_at

    @classmethod
    def of_text(cls, key_id: str, text: str, **fields: object) -> Self:
        """The record of a key."""
        return cls.model_validate({"id": key_id, "digest": digest_of(text), **fields})


class Tenant(BaseModel):
    """The record of a tenant.

    Args:
        weight: its share of a model's tokens in relation to other tenants that wait.
        service_class: of its answers, unless a message requests a lower one.
        limits, user_limits: of the tenant, and of each of its users.
        models, agents, origins: those that it may use. Empty: all.
        filtering: what happens to answers that the content filters would change: `hold` keeps text
            back until it is cleared, `retract` shows it and withdraws it. None: the node's setting.
        shadow: bounds are counted and reported, but reject nothing.
        open: whether its sessions may be opened without a key.
        removed: whether it was removed. Then all else is empty.
    """

    model_config = ConfigDict(frozen=True)

    id: Name
    keys: tuple[ApiKey, ...] = ()
    weight: Annotated[float, Field(ge=0.01, le=1_000)] = 1.0
    service_class: ServiceClass = ServiceClass.STANDARD
    limits: QuotaLimits = NO_LIMITS
    user_limits: QuotaLimits = NO_LIMITS
    models: tuple[str, ...] = ()
    agents: tuple[Name, ...] = ()
    origins: tuple[str, ...] = ()
    filtering: Literal["off", "hold", "retract"] | None = None
    shadow: bool = False
    open: bool = False
    removed: bool = False

    def key(self, key_id: str) -> ApiKey | None:
        """Its key with this id. None: it has none."""
        return next((key for key in self.keys if key.id == key_id), None)

    def to_text(self) -> str:
        """The record as stores keep it."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` has written. Fields of later versions are left out."""
        return cls.model_validate_json(text)


def new_key() -> tuple[str, str]:
    """A new key: its id, and its text, which is shown once."""
    key_id = secrets.token_hex(4)
    return key_id, f"{_KEY_PREFIX}_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def digest_of(text: str) -> str:
    """The digest of a key in records."""
    # Header bytes that are not UTF-8 arrive as lone surrogates.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
