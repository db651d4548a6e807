"""The handler's adapters to the outside, other than its sockets and its model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_core.stores.dead_letters import DeadLetters, LoggedDeadLetters
from evenflow.stream_core.stores.memory_store import (
    MemoryLargeTexts,
    MemoryResponseStore,
    MemorySessionStore,
)
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, ResponseStore
from evenflow.stream_core.stores.session_store import LargeTexts, SessionStore
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT
from evenflow.stream_core.tenants.memory_tenant_store import MemoryTenantStore
from evenflow.stream_core.tenants.memory_usage import MemoryUsageStore
from evenflow.stream_core.tenants.tenant_store import TenantStore
from evenflow.stream_core.tenants.usage_store import KEPT_SECONDS, UsageStore
from evenflow.stream_core.upstream.memory_node_reports import MemoryNodeReports
from evenflow.stream_core.upstream.node_reports import NodeReports
from evenflow.stream_sqlite.file import FileUnusable
from evenflow.stream_sqlite.file_watch import FileWatch
from evenflow.stream_sqlite.room import Room
from evenflow.stream_sqlite.stores import SQLiteStores

if TYPE_CHECKING:
    from evenflow.fargate_handler.tracing.exporting import Tracing
    from evenflow.stream_aws.ecs_task import EcsTask, TaskProtection
    from evenflow.stream_aws.key_secret import KeySecret
    from evenflow.stream_aws.metric_publication import MetricPublication

ECS_METADATA = "ECS_CONTAINER_METADATA_URI_V4"
"""The variable with the address of a task's metadata. ECS sets it in each container."""

ECS_AGENT = "ECS_AGENT_URI"
"""The variable with the address of the ECS agent. ECS sets it in each container."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of sessions, responses and tenants.

    Args:
        leases: the responses, over separate connections. Renewing a lease must not wait for the
            writes that it covers.
        large_texts: None if texts that are too large for the ledger are rejected.
        largest_text: the most bytes of a text that `sessions` takes. None: no limit.
        watch: detects that the file was deleted. None: these stores have no file.
        room: frees space in the file. None: these stores have no file.
        longest_answer: bytes of the longest answer that a session keeps for its model. None: any.
        usage: None if nothing is reserved or recorded for tenants.
        outlives_process: whether another process can resume the answers of this one.
        unreachable, unusable: what to check, in the message of a failed start.
        signing_key: the key of session tokens, if the store keeps one for all its nodes.
        tenants: None if tenants have no records, only keys that are set beside them.
        node_reports: the reports of nodes to each other. None: they don't report.
    """

    sessions: SessionStore
    responses: ResponseStore
    leases: ResponseStore
    dead_letters: DeadLetters
    large_texts: LargeTexts | None
    outlives_process: bool
    usage: UsageStore | None = None
    unreachable: str = "the store can't be reached"
    unusable: str = "the store can't be used"
    signing_key: str | None = None
    tenants: TenantStore | None = None
    node_reports: NodeReports | None = None
    longest_answer: int | None = None
    watch: FileWatch | None = None
    room: Room | None = None
    largest_text: int | None = LARGEST_ITEM_TEXT


def memory_stores(lifetime: float = LIFETIME_SECONDS, usage_kept: float = KEPT_SECONDS) -> Stores:
    """Stores in this process' memory. They end with it.

    Args:
        lifetime: seconds that messages of chats are kept.
        usage_kept: seconds that usage records are kept.
    """
    responses, texts = MemoryResponseStore(), MemoryLargeTexts(time.time)
    return Stores(
        sessions=MemorySessionStore(responses, texts, lifetime),
        responses=responses,
        leases=responses,
        dead_letters=LoggedDeadLetters(),
        large_texts=texts,
        usage=MemoryUsageStore(usage_kept),
        outlives_process=False,
        tenants=MemoryTenantStore(),
        node_reports=MemoryNodeReports(),
    )


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters that the settings need. Those that are None are not used.

    `peer_address` is where other nodes reach this one, `http://host:port`, from ECS's metadata.
    `tracing` makes spans, which it exports.
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
    tracing: Tracing | None = None


@contextmanager
def own_stores(settings: HandlerSettings) -> Iterator[Stores]:
    """The stores of this machine: a file, or this process' memory.

    Raises:
        ConfigurationError: the file can't be used.
    """
    if settings.store == "memory":
        yield memory_stores(settings.session_ttl_seconds, settings.usage_ttl_seconds)
        return
    try:
        stores = SQLiteStores(
            settings.store_path,
            time.time,
            settings.session_ttl_seconds,
            settings.usage_ttl_seconds,
            settings.store_bytes,
        )
    except FileUnusable as error:
        raise ConfigurationError(f"EVENFLOW_STORE_PATH={settings.store_path}: {error}") from error
    with closing(stores) as file:
        yield Stores(
            sessions=file.sessions,
            responses=file.responses,
            leases=file.responses,
            dead_letters=file.dead_letters,
            large_texts=file.large_texts,
            largest_text=None,
            usage=file.usage,
            outlives_process=True,
            unreachable=f"EVENFLOW_STORE_PATH={settings.store_path}: the file can't be written",
            unusable=f"EVENFLOW_STORE_PATH={settings.store_path}: the file can't be used",
            signing_key=file.signing_key,
            tenants=file.tenants,
            node_reports=file.node_reports,
            watch=file.watch,
            room=file.room,
        )
