"""`evenflow tenants`: makes, changes, lists and removes the records of tenants."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from evenflow import tenant_options as options
from evenflow import usage
from evenflow.command_line import CommandFailed
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from evenflow.opened_store import OpenedTenants, open_tenants, server_variable
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.base.public_models import names_at_server, own_name, parse_models
from evenflow.stream_core.tenants.budget import models_without_price
from evenflow.stream_core.tenants.rotation import KeyUnclear, rotated
from evenflow.stream_core.tenants.tenant import ApiKey, Tenant, digest_of, new_key
from evenflow.stream_core.tenants.tenant_store import StoredTenants, TenantChanged
from evenflow.tenant_listing import as_json, as_table, moment

T = TypeVar("T")


def check_prices(tenant: Tenant) -> None:
    """Check that the budgets of a record can be counted.

    Raises:
        CommandFailed: a budget is in dollars, and a model that the tenant may ask has no price.
        ConfigurationError: the prices or the models can't be read.
    """
    own = own_name(server_variable("model"), server_variable("model_name"))
    served = names_at_server(_parsed("models", parse_models), own)
    missing = models_without_price(tenant, served, _parsed("model_prices", ModelPrices.parse))
    if missing:
        raise CommandFailed(
            f"nothing was changed: a budget in dollars needs the price of {', '.join(missing)}, "
            f"and messages would be refused without it; {_how_to_set(missing)}"
        )


def _how_to_set(missing: Sequence[str]) -> str:
    set_them = (
        "set EVENFLOW_MODEL_PRICES here and at the servers, in dollars for a million tokens of "
        "input and output: " + ",".join(f"{model}=2.50/10" for model in missing)
    )
    if server_variable("store") != "dynamodb":
        return set_them
    return (
        f"{set_them}; our stacks take prices from inference.price and inference.prices, and their "
        "output TenantsVariables has what to set here"
    )


def _parsed(setting: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(server_variable(setting))
    except ValueError as error:
        raise ConfigurationError(f"EVENFLOW_{setting.upper()} {error}") from None


if TYPE_CHECKING:
    from evenflow.command_line import Commands

_TRIES = 5
_SEEN = "servers see it within 5 s"


def add_to(commands: Commands) -> None:
    """Add the command."""
    of_tenants = commands.add_parser("tenants", help="tenants, their keys and their bounds")
    actions = of_tenants.add_subparsers(metavar="action", required=True)

    add = actions.add_parser("add", help="make a tenant and its first key, which is printed once")
    options.add_options(add)
    options.add_scopes(add)
    add.set_defaults(run=_add)

    key = actions.add_parser("key", help="make another key of a tenant, or remove one")
    options.add_options_of_key(key)
    key.add_argument("--remove", metavar="ID", help="the key to remove: none is made")
    key.set_defaults(run=_key)

    rotate = actions.add_parser("rotate", help="make a new key; the old one expires later")
    rotate.add_argument(
        "--overlap", type=options.duration, default=options.duration("24h"), metavar="TIME",
        help="how long both are valid: 30s, 15m, 24h, 7d, or 0 (24h)",
    )  # fmt: skip
    rotate.add_argument("--key", metavar="ID", help="the key to replace, where there are several")
    rotate.set_defaults(run=_rotate)

    limit = actions.add_parser("limit", help="change a tenant's bounds, weight, class, …")
    options.add_options(limit)
    limit.set_defaults(run=_limit)

    remove = actions.add_parser("remove", help="remove a tenant, with all that its keys opened")
    remove.set_defaults(run=_remove)

    restore = actions.add_parser("restore", help="take a tenant's record from a restored copy")
    restore.add_argument(
        "--from", dest="source", required=True, metavar="PLACE",
        help="the table that was restored, or the copy of the file",
    )  # fmt: skip
    restore.set_defaults(run=_restore)
    for action in (add, key, rotate, limit, remove, restore):
        action.add_argument("tenant", type=options.tenant_name)

    usage.add_to(actions)

    listing = actions.add_parser("list", help="list all tenants")
    listing.add_argument("--json", action="store_true", help="all fields, for programs")
    listing.set_defaults(run=_list)


async def _add(arguments: argparse.Namespace) -> None:
    key_id, text = new_key()
    key = ApiKey(id=key_id, digest=digest_of(text), scopes=arguments.scopes)

    def add(stored: StoredTenants) -> Tenant:
        if stored.find(arguments.tenant) is not None:
            raise CommandFailed(
                f"tenant {arguments.tenant} exists already, and was not changed: `evenflow tenants "
                "limit` changes it, and `evenflow tenants rotate` gives it a new key"
            )
        record = options.updated_record(Tenant(id=arguments.tenant, keys=(key,)), vars(arguments))
        check_prices(record)
        return record

    async with open_tenants() as opened:
        before = await opened.store.load()
        first = not (before.records or before.had_tenants)
        await _change(opened, add)
        if first:
            _print_notice(
                "from now on sessions and /v1 need a key; `evenflow tenants add public --open` "
                "lets everybody open sessions without one"
            )
        _print_notice(
            f"tenant {arguments.tenant} was added to {opened.place}; {_SEEN}; its key, shown once:"
        )
    print(text)


async def _key(arguments: argparse.Namespace) -> None:
    key_id, text = new_key()
    limits = options.limits_of_key(vars(arguments))
    key = ApiKey(id=key_id, digest=digest_of(text), scopes=arguments.scopes, limits=limits)

    def change(stored: StoredTenants) -> Tenant:
        record = _find_tenant(stored, arguments.tenant)
        if arguments.remove is not None:
            return record.model_copy(update={"keys": _without(record, arguments.remove)})
        record = record.model_copy(update={"keys": (*record.keys, key)})
        if options.changes_prices(vars(arguments)):
            check_prices(record)
        return record

    async with open_tenants() as opened:
        await _change(opened, change)
    if arguments.remove is not None:
        _print_notice(f"key {arguments.remove} of tenant {arguments.tenant} was removed; {_SEEN}")
        return
    _print_notice(f"tenant {arguments.tenant} has another key; {_SEEN}; the key, shown once:")
    print(text)


def _without(record: Tenant, key_id: str) -> tuple[ApiKey, ...]:
    keys = tuple(key for key in record.keys if key.id != key_id)
    if keys == record.keys:
        names = ", ".join(key.id for key in record.keys) or "none at all"
        raise CommandFailed(f"tenant {record.id} has no key {key_id}; it has {names}")
    if not keys:
        raise CommandFailed(
            f"{key_id} is its only key: rotate it with `--overlap 0`, or remove the tenant"
        )
    return keys


async def _rotate(arguments: argparse.Namespace) -> None:
    key_id, text = new_key()
    now = time.time()

    def rotate(stored: StoredTenants) -> Tenant:
        record = _find_tenant(stored, arguments.tenant)
        key = ApiKey(id=key_id, digest=digest_of(text))
        try:
            return rotated(record, key, now=now, overlap=arguments.overlap, key_id=arguments.key)
        except KeyUnclear as error:
            raise CommandFailed(str(error)) from None

    async with open_tenants() as opened:
        record = await _change(opened, rotate)
        ends = [f"{key.id} until {moment(key.expires_at)}" for key in record.keys if key.expires_at]
        beside = f" beside {', '.join(ends)}" if ends else ""
        _print_notice(
            f"tenant {arguments.tenant} has a new key{beside}; {_SEEN}; the key, shown once:"
        )
    print(text)


async def _limit(arguments: argparse.Namespace) -> None:
    def limit(stored: StoredTenants) -> Tenant:
        record = _find_tenant(stored, arguments.tenant)
        changed = options.updated_record(record, vars(arguments))
        if changed == record:
            raise CommandFailed(f"tenant {arguments.tenant} is as it was: nothing else was given")
        if options.changes_prices(vars(arguments)):
            check_prices(changed)
        return changed

    async with open_tenants() as opened:
        record = await _change(opened, limit)
    _print_notice(f"tenant {arguments.tenant} was changed; {_SEEN}")
    print(as_table([record], time.time()))


async def _remove(arguments: argparse.Namespace) -> None:
    async with open_tenants() as opened:
        for _ in range(_TRIES):
            stored = await opened.store.load()
            _find_tenant(stored, arguments.tenant)
            try:
                await opened.store.delete(arguments.tenant, stored.revision)
            except TenantChanged:
                continue
            _print_notice(
                f"tenant {arguments.tenant} was removed; {_SEEN}, and end all that it had opened"
            )
            if len(stored.records) == 1:
                _print_notice(
                    "no tenant is left, and callers still need a key: `evenflow tenants add public "
                    "--open` lets everybody open sessions without one"
                )
            return
    raise _concurrent_changes()


async def _restore(arguments: argparse.Namespace) -> None:
    async with open_tenants(arguments.source) as copied:
        record = _find_tenant(await copied.store.load(), arguments.tenant)
    async with open_tenants() as opened:
        await _change(opened, lambda _: record)
        _print_notice(
            f"tenant {arguments.tenant} of {copied.place} is in {opened.place} again; {_SEEN}"
        )
    print(as_table([record], time.time()))


async def _list(arguments: argparse.Namespace) -> None:
    async with open_tenants() as opened:
        records = (await opened.store.load()).records
    if arguments.json:
        print(as_json(records))
    elif records:
        print(as_table(records, time.time()))
    else:
        _print_notice(f"there are no tenants in {opened.place}")


async def _change(opened: OpenedTenants, change: Callable[[StoredTenants], Tenant]) -> Tenant:
    """Write the record that `change` makes of those that there are. Returns it.

    Raises:
        CommandFailed: as `change`, or concurrent changes did not stop.
    """
    for _ in range(_TRIES):
        stored = await opened.store.load()
        record = change(stored)
        try:
            await opened.store.put(record, stored.revision)
        except TenantChanged:
            continue
        return record
    raise _concurrent_changes()


def _find_tenant(stored: StoredTenants, tenant_id: str) -> Tenant:
    record = stored.find(tenant_id)
    if record is None:
        known = ", ".join(each.id for each in stored.records) or "none yet"
        raise CommandFailed(f"there is no tenant {tenant_id}; there are: {known}")
    return record


def _concurrent_changes() -> CommandFailed:
    return CommandFailed("others change tenants at the moment; nothing was changed, try again")


def _print_notice(sentence: str) -> None:
    """Print to standard error. Standard output has only what a program may read."""
    print(sentence, file=sys.stderr)
