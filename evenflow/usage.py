"""`evenflow tenants usage` and `usage-file`: what tenants have used, for people and programs."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from evenflow import tenant_options as options
from evenflow.command_line import CommandFailed
from evenflow.opened_store import open_tenants
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.evenflow.http_bodies import UsageReport, UsedOfDay
from evenflow.stream_core.protocols.evenflow.usage_report import (
    MOST_DAYS,
    day_records,
    days_asked,
    usage_report,
)
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.usage import file_of
from evenflow.tenant_listing import in_columns

if TYPE_CHECKING:
    from evenflow.command_line import Commands

_HEADING = ("day", "model", "answers", "input", "output", "cached", "reasoning", "dollars")


def add_to(actions: Commands) -> None:
    """Add both to the actions of `evenflow tenants`."""
    usage = actions.add_parser("usage", help="what a tenant has used, and what is left")
    usage.add_argument("tenant", type=options.tenant_name, help="its name")
    usage.add_argument(
        "--from", dest="first", type=options.day, metavar="DAY",
        help="the first day (of the month)",
    )  # fmt: skip
    usage.add_argument(
        "--to", dest="last", type=options.day, metavar="DAY", help="the last day (today)"
    )
    usage.set_defaults(run=_usage)

    file = actions.add_parser("usage-file", help="print a day's usage records, a JSON line each")
    file.add_argument("day", type=options.day, help="a day of UTC: 2026-11-24")
    file.add_argument("tenants", nargs="*", help="of these; default: of all that have a record")
    file.set_defaults(run=_usage_file)


async def _usage(arguments: argparse.Namespace) -> None:
    now = time.time()
    try:
        days = days_asked(arguments.first, arguments.last, now, MOST_DAYS)
    except InvalidRequest as wrong:
        raise CommandFailed(wrong.message) from None
    async with open_tenants() as opened:
        record = (await opened.store.load()).find(arguments.tenant)
        report = await usage_report(opened.usage, record or Tenant(id=arguments.tenant), days, now)
    if record is None:
        print(f"{opened.place} has no record of tenant {arguments.tenant}", file=sys.stderr)
    print(as_table(report))


async def _usage_file(arguments: argparse.Namespace) -> None:
    async with open_tenants() as opened:
        known = [record.id for record in (await opened.store.load()).records]
        records = await day_records(opened.usage, arguments.tenants or known, arguments.day)
    sys.stdout.write(file_of(records).decode())


def as_table(report: UsageReport) -> str:
    """A report for people: a line for each day and model, then one for each budget."""
    rows = [(used.day, used.model, *_counts(used), _dollars(used)) for used in report.days]
    lines = [in_columns([_HEADING, *rows])] if rows else ["nothing was used on these days"]
    lines += [
        f"budget of the {budget.of} for {budget.period}: {budget.committed:,.10g} of "
        f"{budget.bound:,.10g} {budget.unit}, {budget.left:,.10g} left"
        for budget in report.budgets
    ]
    if report.answers_reserved:
        lines.append(f"answers that run and have something reserved: {report.answers_reserved}")
    return "\n".join(lines)


def _dollars(used: UsedOfDay) -> str:
    return "-" if used.cost_usd is None else f"{used.cost_usd:,.4f}"


def _counts(used: UsedOfDay) -> tuple[str, ...]:
    tokens = used.input_tokens, used.output_tokens, used.cached_tokens, used.reasoning_tokens
    return tuple(f"{count:,}" for count in (used.answers, *tokens))
