"""Tenants' records as items of the table `TENANTS`, for the handler and for the functions.

All records are one partition, so that one Query lists them. A row beside them has the revision,
and which record was changed last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evenflow.stream_aws.attributes import Item, flag, number, text
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.tenant_store import StoredTenants

# No tenant's name has such a character, so this partition is none of theirs.
_PARTITION = "#records"
_REVISION_ROW = "revision"
_RECORD_ROW = "tenant#"


def revision_request(table: str) -> dict[str, Any]:
    """The GetItem of the revision."""
    return {"TableName": table, "Key": _key(_REVISION_ROW), "ConsistentRead": True}


def records_request(table: str) -> dict[str, Any]:
    """The Query of all records with their revision."""
    return {
        "TableName": table,
        "KeyConditionExpression": "tenant = :records",
        "ExpressionAttributeValues": {":records": text(_PARTITION)},
        "ConsistentRead": True,
    }


def read_revision(item: Item | None) -> int:
    """The revision in its row. 0 without one."""
    return int(item["revision"]["N"]) if item else 0


def read_records(items: Iterable[Item]) -> StoredTenants | None:
    """The records of a Query. None where it saw half of a change: ask again.

    DynamoDB may show the rows of a transaction one after the other.
    """
    rows = {item["row"]["S"]: item for item in items}
    head = rows.pop(_REVISION_ROW, None)
    if head is None:
        return StoredTenants()
    revision, changed = read_revision(head), rows.get(_record_row(head["changed"]["S"]))
    if changed is None:
        is_whole = head["deleted"]["BOOL"]
    else:
        written_at = read_revision(changed)
        is_whole = written_at > revision or (written_at == revision and not head["deleted"]["BOOL"])
    if not is_whole:
        return None
    return StoredTenants.of(
        [Tenant.from_text(item["record"]["S"]) for item in rows.values()], revision
    )


def change(table: str, record: Tenant, revision: int) -> list[Item]:
    """The writes of one transaction that makes this the record of its tenant."""
    after = number(revision + 1)
    item = {**_key(_record_row(record.id)), "record": text(record.to_text()), "revision": after}
    of_record = {"Put": {"TableName": table, "Item": item}}
    # Older versions delete the row of a removed tenant, and set `deleted`.
    values = {":after": after, ":changed": text(record.id), ":deleted": flag(False)}
    condition = "attribute_not_exists(revision)"
    if revision:
        condition, values[":read"] = "revision = :read", number(revision)
    of_revision = {
        "TableName": table,
        "Key": _key(_REVISION_ROW),
        "UpdateExpression": "SET revision = :after, changed = :changed, deleted = :deleted",
        "ConditionExpression": condition,
        "ExpressionAttributeValues": values,
    }
    return [{"Update": of_revision}, of_record]


def _record_row(tenant_id: str) -> str:
    return f"{_RECORD_ROW}{tenant_id}"


def _key(row: str) -> Item:
    return {"tenant": text(_PARTITION), "row": text(row)}
