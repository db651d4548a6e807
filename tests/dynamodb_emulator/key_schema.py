"""Which attributes are the key of a table or of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.dynamodb_emulator.attribute_values import Item, Value, rank, type_of, value_size
from tests.dynamodb_emulator.errors import invalid, unreadable
from tests.dynamodb_emulator.partitions import ItemKey, Position

_LONGEST_PARTITION_KEY = 2048
_LONGEST_SORT_KEY = 1024


@dataclass(frozen=True, slots=True)
class KeyAttribute:
    """A part of a key: its name, its type, and how many bytes it may have."""

    name: str
    type: str
    longest: int

    def check(self, value: Value) -> None:
        """Refuse a value that is of the right type, but no key."""
        size = value_size(value)
        if self.type != "N" and not size:
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute "
                f"cannot contain an empty {'string' if self.type == 'S' else 'binary'} value. Key: {self.name}"
            )
        if size > self.longest:
            raise invalid(
                "One or more parameter values were invalid: "
                f"Size of the key {self.name} has exceeded the maximum size limit of {self.longest} bytes"
            )


class KeySchema:
    """The key's attributes: one, or two."""

    def __init__(self, partition: KeyAttribute, sort: KeyAttribute | None) -> None:
        self.partition = partition
        self.sort = sort
        self.attributes = (partition,) if sort is None else (partition, sort)
        self.names = tuple(attribute.name for attribute in self.attributes)

    def key_of(self, item: Item) -> ItemKey:
        """The key of an item that has one."""
        return rank(item[self.partition.name]), self.position_of(item)

    def position_of(self, item: Item) -> Position:
        """Where such an item stands in its partition."""
        return () if self.sort is None else (rank(item[self.sort.name]),)

    def of_key(self, key: Any) -> ItemKey:
        """A request's `Key`."""
        if type(key) is not dict:
            raise unreadable("a key is a map of attributes")
        if len(key) != len(self.attributes):
            raise invalid("The provided key element does not match the schema")
        for attribute in self.attributes:
            value = key.get(attribute.name)
            if type(value) is not dict or attribute.type not in value:
                raise invalid("The provided key element does not match the schema")
            attribute.check(value)
        return self.key_of(key)

    def of_item(self, item: Item) -> ItemKey:
        """The key of an item that is to be written; its values have been checked."""
        for attribute in self.attributes:
            value = item.get(attribute.name)
            if value is None:
                raise invalid(
                    f"One or more parameter values were invalid: Missing the key {attribute.name} in the item"
                )
            if attribute.type not in value:
                raise invalid(
                    f"One or more parameter values were invalid: Type mismatch for key {attribute.name} "
                    f"expected: {attribute.type} actual: {type_of(value)}"
                )
            attribute.check(value)
        return self.key_of(item)


def key_schema(elements: list[Any], types: dict[str, str]) -> KeySchema:
    """The schema that a request describes.

    Args:
        elements: its `KeySchema`.
        types: its `AttributeDefinitions`, by name.
    """
    kinds = [element["KeyType"] for element in elements]
    names = [element["AttributeName"] for element in elements]
    if kinds not in (["HASH"], ["HASH", "RANGE"]) or len(set(names)) != len(names):
        raise invalid("Invalid KeySchema: the first element is a HASH key type, and a second one a RANGE key type")
    if missing := set(names) - set(types):
        raise invalid(
            "One or more parameter values were invalid: Some index key attributes are not defined in "
            f"AttributeDefinitions. Keys: {sorted(missing)}, AttributeDefinitions: {sorted(types)}"
        )
    partition = KeyAttribute(names[0], types[names[0]], _LONGEST_PARTITION_KEY)
    sort = KeyAttribute(names[1], types[names[1]], _LONGEST_SORT_KEY) if len(names) > 1 else None
    return KeySchema(partition, sort)
