"""Settings of what is outside the process: its store, its peers, and where metrics go."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AnyHttpUrl, BaseModel, Field


class StoreSettings(BaseModel):
    """Where sessions, responses and metrics are kept, and where other nodes reach this one."""

    peer_url: AnyHttpUrl | None = Field(
        None,
        description=(
            "where other nodes reach this one; default: the address in ECS's metadata, or http_host"
        ),
    )
    dead_letters_queue: AnyHttpUrl | None = Field(
        None,
        description=(
            "URL of the SQS queue for messages that no node could answer; without one they are "
            "logged"
        ),
    )
    store: Literal["sqlite", "memory", "dynamodb"] = Field(
        "sqlite",
        description=(
            "where sessions and responses are kept: a file that handlers on one machine share, "
            "this process' memory, or tables that all nodes share"
        ),
    )
    store_path: Path = Field(
        Path(".evenflow/evenflow.db"),
        description=(
            "the file, on a local disk; it is made at the first start with its folder "
            "(store=sqlite)"
        ),
    )
    sessions_table: str | None = Field(None, description="table of sessions (store=dynamodb)")
    ledger_table: str | None = Field(
        None, description="table of accepted messages (store=dynamodb)"
    )
    responses_table: str | None = Field(None, description="table of responses (store=dynamodb)")
    tenants_table: str | None = Field(
        None,
        min_length=3,
        description=(
            "table of tenants (store=dynamodb); without one there are only the keys of tenant_keys "
            "or of tenant_keys_secret"
        ),
    )
    requests_bucket: str | None = Field(
        None,
        min_length=3,
        description=(
            "S3 bucket for requests of /v1 that are too large for the ledger (store=dynamodb); "
            "without one they are refused with 413"
        ),
    )
    metrics: Literal["prometheus", "cloudwatch"] = Field(
        "prometheus",
        description="where metrics go: only to /metrics, or also to CloudWatch once a minute",
    )
    metrics_environment: str = Field(
        "local", min_length=1, max_length=64, description="CloudWatch's dimension Environment"
    )
