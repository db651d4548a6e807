"""What the handler has of the outside world beside its sockets and its model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fargate_handler.settings import ConfigurationError, HandlerSettings
from stream_core.ports.dead_letters import DeadLetters, LoggedDeadLetters
from stream_core.ports.memory_store import MemoryLargeTexts, MemoryResponseStore, MemorySessionStore
from stream_core.ports.response_store import ResponseStore
from stream_core.ports.session_store import LargeTexts, SessionStore
from stream_sqlite.file import FileUnusable
from stream_sqlite.stores import SQLiteStores

if TYPE_CHECKING:
    from stream_aws.ecs_task import EcsTask, TaskProtection
    from stream_aws.key_secret import KeySecret
    from stream_aws.metric_publication import MetricPublication

ECS_METADATA = "ECS_CONTAINER_METADATA_URI_V4"
"""Where ECS tells a container who it is; set in each of them, and nowhere else."""

ECS_AGENT = "ECS_AGENT_URI"
"""Where the ECS agent beside a container listens; likewise."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Where sessions and responses are kept for all tasks.

    `leases`: the responses again, on connections of their own: renewing a lease must not wait behind
    what it covers. `large_texts`: None where a text that is too large for the ledger is refused.
    `outlives_process`: whether somebody can go on with what this process leaves. `unreachable` and
    `unusable` say at the start what to look at.
    `signing_key`: of session tokens, where the store keeps one for all who share it.
    """

    sessions: SessionStore
    responses: ResponseStore
    leases: ResponseStore
    dead_letters: DeadLetters
    large_texts: LargeTexts | None
    outlives_process: bool
    unreachable: str = "the store can't be reached"
    unusable: str = "the store can't be used"
    signing_key: str | None = None


def memory_stores() -> Stores:
    """Stores in this process' memory, which end with it."""
    responses, texts = MemoryResponseStore(), MemoryLargeTexts(time.time)
    return Stores(
        sessions=MemorySessionStore(responses, texts),
        responses=responses,
        leases=responses,
        dead_letters=LoggedDeadLetters(),
        large_texts=texts,
        outlives_process=False,
    )


@dataclass(frozen=True, slots=True)
class Adapters:
    """What the settings ask for. None is what this node does without.

    `peer_address`: where other tasks reach this one, `http://host:port`, as ECS tells it.
    """

    signing_keys: dict[str, bytes]
    stores: Stores
    signing_key_secret: KeySecret[dict[str, bytes]] | None = None
    tenant_keys: dict[str, str] = field(default_factory=dict)
    tenant_key_secret: KeySecret[dict[str, str]] | None = None
    publication: MetricPublication | None = None
    ecs_task: EcsTask | None = None
    task_protection: TaskProtection | None = None
    peer_address: str | None = None


@contextmanager
def own_stores(settings: HandlerSettings) -> Iterator[Stores]:
    """The stores of this machine: a file, or this process' memory.

    Raises:
        ConfigurationError: the file can't be used.
    """
    if settings.store == "memory":
        yield memory_stores()
        return
    try:
        opened = SQLiteStores(settings.store_path, time.time)
    except FileUnusable as error:
        raise ConfigurationError(f"EVENFLOW_STORE_PATH={settings.store_path}: {error}") from error
    with closing(opened) as file:
        yield Stores(
            sessions=file.sessions,
            responses=file.responses,
            leases=file.responses,
            dead_letters=file.dead_letters,
            large_texts=file.large_texts,
            outlives_process=True,
            unreachable=f"EVENFLOW_STORE_PATH={settings.store_path}: the file can't be written",
            unusable=f"EVENFLOW_STORE_PATH={settings.store_path}: the file can't be used",
            signing_key=file.signing_key,
        )
