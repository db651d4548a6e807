"""What an environment costs, computed from its synthesized templates
(`tests/infrastructure/snapshots`) and the prices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from docs.markdown import item, paragraph
from evenflow.infra.estimates import prices
from evenflow.infra.estimates.costs import (
    CANARY_OUTPUT_TOKENS,
    HOURS_PER_MONTH,
    CostRow,
    costs,
    month_of_a_lease,
    month_of_looks,
    tasks_for,
)
from evenflow.infra.estimates.traffic import LARGEST_TEXT_IN_ENTRY, Traffic
from evenflow.infra.settings.environments import ENVIRONMENTS, environment
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT

_SNAPSHOTS = Path(__file__).resolve().parent.parent / "tests" / "infrastructure" / "snapshots"
_ENDPOINTS_OF_DEV = 7
_SSE_FRAME_BYTES = 300
_DOLLARS = re.compile(r"([\d,]+\.\d+) (?:dollars|dollar)")


def costs_page(note: str) -> str:
    """The costs of each environment, and what they are made of."""
    traffic = Traffic()
    rows = [_rows(name, traffic) for name in ENVIRONMENTS]
    answers = replace(traffic, output_tokens=300, answer_seconds=15, polled=0)
    each = [_delivery(_rows(name, answers)) / answers.answers_per_hour for name in ENVIRONMENTS]
    lines = (
        ("a month at rest", map(_at_rest, rows)),
        (
            f"an hour of {traffic.streams:,} answers at each moment, without the model",
            map(_delivery, rows),
        ),
        (
            "1,000 answers of 300 tokens over WebSockets, without the model",
            (1_000 * usd for usd in each),
        ),
        ("the model's tokens in that hour (Claude Haiku 4.5 on Bedrock)", map(_model, rows)),
    )
    return "\n".join(
        [
            note,
            "# Costs",
            "",
            *paragraph(
                "About, in US dollars, in us-east-1, on demand, without free tiers and discounts. "
                "Nothing here was billed: it is computed from the templates and from published "
                "prices ([sources](../infra/estimates/prices.py)). `make deploy` prints it "
                "before it asks, with the quotas that the account needs ([aws.md](aws.md))."
            ),
            "",
            f"| | {' | '.join(ENVIRONMENTS)} |",
            f"|---|{'---|' * len(rows)}",
            *(f"| {what} | {' | '.join(map(_usd, figures))} |" for what, figures in lines),
            "",
            *paragraph(
                "The hour and the 1,000 answers include storage, delivery and sessions, but not "
                "the cost at rest." + _beyond(traffic)
            ),
            "",
            *_parts("dev", traffic),
            *_without("dev"),
            *_parts("prod", traffic),
            *_answer(traffic),
            *_kinds(),
            *_budget(),
            *_assumptions(traffic),
            "",
        ]
    )


def _beyond(traffic: Traffic) -> str:
    """Which environments can't run the traffic, however much it would cost there."""
    return "".join(
        f" `{name}` can't run that hour: it takes {tasks:.2f} tasks, and there are at most "
        f"{settings.handler.tasks_max}."
        for name, settings in ENVIRONMENTS.items()
        if (tasks := tasks_for(settings, traffic)) > settings.handler.tasks_max
    )


def stale_figures(text: str, page: str) -> list[str]:
    """The figures in dollars in `text` that the page of costs does not have."""
    return [figure for figure in _DOLLARS.findall(text) if f" {figure} " not in page]


def _without(name: str) -> list[str]:
    """What the pieces of an environment at rest are for, and what it is like without them."""
    rows = {row.what: row.month_at_rest for row in _rows(name, Traffic())}

    def month(beginning: str) -> str:
        return _usd(sum(usd for what, usd in rows.items() if what.startswith(beginning)))

    def hourly(usd: float) -> str:
        return _usd(usd * HOURS_PER_MONTH)

    endpoints = hourly(_ENDPOINTS_OF_DEV * prices.ENDPOINT_ZONE_HOUR.usd)
    rules = 5
    firewall = prices.WEB_ACL_MONTH.usd + rules * prices.WEB_ACL_RULE_MONTH.usd
    has = (
        (
            "one task",
            month("ECS"),
            "nobody is answered. With a second one a killed task's answers go on in seconds",
        ),
        (
            "its public address",
            month("Public"),
            "AWS is reached in another way, see below. Only the load balancer may come in",
        ),
        ("load balancer", month("Load"), "CloudFront has nothing that stays when tasks change"),
        ("metrics, alarms, dashboard", month("CloudWatch"), "nobody sees or hears of trouble"),
        (
            "lease of a task, and its looks at tenants",
            month("DynamoDB"),
            "nobody takes an answer over",
        ),
        ("secrets and a key", month("Secrets"), "no tokens, no tenants' keys"),
    )
    lacks = (
        (
            "endpoints in one zone",
            endpoints,
            "tasks reach AWS over the internet, and anything else on port 443",
        ),
        ("a NAT gateway in one zone", hourly(prices.NAT_HOUR.usd), "likewise"),
        (f"WAF with {rules} rules", _usd(firewall), "floods reach the tasks, which refuse them"),
    )
    return [
        "| what it has | a month | without it |",
        "|---|---|---|",
        *(f"| {what} | {usd} | {effect} |" for what, usd, effect in has),
        "",
        "| what it goes without | a month | so |",
        "|---|---|---|",
        *(f"| {what} | {usd} | {effect} |" for what, usd, effect in lacks),
        "",
        *paragraph(
            "Gateway endpoints for DynamoDB and S3 are free; every environment has them. In "
            "`staging` and `prod` tasks have no way to the internet (`endpoint_zones`)."
        ),
        "",
    ]


def _answer(traffic: Traffic) -> list[str]:
    """What an answer costs in DynamoDB, step by step, and what it would with its text often."""
    often = replace(traffic, chunk_seconds=0.16, polled_chunk_seconds=0.16)
    columns = (often, traffic)
    steps: Iterable[tuple[str, Iterable[float]]] = (
        (
            "text, where it is read at its task",
            (each.answer_seconds / each.chunk_seconds + 1 for each in columns),
        ),
        (
            "text, where it is polled",
            (each.answer_seconds / each.polled_chunk_seconds + 1 for each in columns),
        ),
        ("head, index, ledger, session", (each.other_writes for each in columns)),
        ("each poll", (1 for _ in columns)),
        ("form of parts, on average", (each.typed for each in columns)),
        ("**write units of an answer, on average**", (e.writes_per_answer for e in columns)),
        ("read units of an answer, on average", (e.reads_per_answer for e in columns)),
    )
    hours = [_database(_rows("dev", each)) for each in columns]
    write, read = (f"{1e6 * price.usd:g}" for price in (prices.TABLE_WRITE, prices.TABLE_READ))
    return [
        "## An answer in DynamoDB",
        "",
        "| | text every 150 ms | text every second |",
        "|---|---|---|",
        *(f"| {what} | {' | '.join(f'{it:.1f}' for it in units)} |" for what, units in steps),
        f"| **an hour, in dollars** | {' | '.join(map(_usd, hours))} |",
        "",
        *paragraph(
            f"{traffic.writes_per_answer:.1f} × {write} and {traffic.reads_per_answer:.1f} × "
            f"{read} dollars a million, for {traffic.answers_per_hour:,.0f} answers, and the "
            "tasks' leases. `make bench` measures the units (scenario `store`); the emulator bills "
            "as DynamoDB does. An answer that nobody reads at its task may be polled: its text is "
            "written as often as the wait of its polls asks for, from every 150 ms on "
            "([why](decisions/0059-text-on-record-each-second.md))."
        ),
        "",
    ]


def _kinds() -> list[str]:
    """The costs of answers by tenant and length of prompt, without the model."""
    anonymous = Traffic()
    keyed = replace(anonymous, keyed=1)
    kinds = (
        ("of an anonymous tenant", anonymous),
        ("of a tenant with a key", keyed),
        ("of one with a budget, too", replace(keyed, other_writes=keyed.other_writes + 8)),
        *(
            (f"of a tenant with a key, with a prompt of {kb} KB", replace(keyed, prompt_bytes=size))
            for kb, size in ((kb, 1024 * kb) for kb in (1, 4, 8, 32, 100))
        ),
    )
    settings = environment("dev").model_copy(update={"name": "prod"})
    rows = []
    for what, traffic in kinds:
        hour = _delivery(costs(settings, [], traffic))
        more = traffic.prompt_writes(apart=False) - traffic.prompt_writes()
        together = hour + traffic.answers_per_hour * more * prices.TABLE_WRITE.usd
        figures = (hour, together, 1_000 * hour / traffic.answers_per_hour)
        units = f"{traffic.writes_per_answer:.1f}"
        rows.append(f"| {what} | {units} | {' | '.join(map(_usd, figures))} |")
    return [
        "## By tenant and prompt",
        "",
        "| an answer | write units | an hour | an hour, its text in the message's item | 1,000 |",
        "|---|---|---|---|---|",
        *rows,
        "",
        *paragraph(
            "Without the model, endpoints and web ACL. A text above "
            f"{LARGEST_TEXT_IN_ENTRY / 1024:g} KB is an item of its own, written once: a unit a "
            "KB. The message's item is written in a transaction, which counts twice, and once more "
            "with the answer ([why not in "
            "S3](decisions/0077-long-texts-are-items-of-their-own.md)). In `staging` and `prod` "
            "all tenants have keys."
        ),
        "",
    ]


def _budget() -> list[str]:
    return [
        "## A budget",
        "",
        *paragraph(
            "`AlarmSettings(monthly_budget_dollars=500, notice_email=…)` makes a budget of AWS "
            "Budgets: it sends a notice at 80% spent, and when the forecast is above the budget. "
            "It counts resources with the tags `environment` and `installation`, which all have. "
            "Activate the tags first, in the account that pays: "
            "Billing and Cost Management, Cost allocation tags, or `aws ce "
            "update-cost-allocation-tags-status --cost-allocation-tags-status "
            "TagKey=environment,Status=Active TagKey=installation,Status=Active`. A tag is listed "
            "there up to a day after the first deployment, and earlier costs don't count. Tokens "
            "of Bedrock count too: handlers use an inference profile with the environment's tags. "
            "Budgets see costs some hours late, and stop nothing. [Tenants' budgets](budgets.md) "
            "bound their use."
        ),
        "",
    ]


def _assumptions(traffic: Traffic) -> list[str]:
    prompt, answer = (
        f"{traffic.input_tokens:,} tokens",
        f"{traffic.output_tokens} tokens in {traffic.answer_seconds:g} s",
    )
    renewing, looking = month_of_a_lease()
    frames = f"{traffic.frames_per_second:g} frames a second of {traffic.frame_bytes} bytes"
    sse = replace(traffic, frame_bytes=_SSE_FRAME_BYTES)
    more = _delivery(_rows("prod", sse)) - _delivery(_rows("prod", traffic))
    return [
        "## What is assumed",
        "",
        *item(
            f"A prompt has {prompt}, an answer {answer}: {traffic.answers_per_hour:,.0f} answers "
            "an hour."
        ),
        *item(
            f"It comes in {frames}, which is what our client is sent (`evenflow.v1.compact`). Were "
            f"all readers OpenAI's clients, with some {_SSE_FRAME_BYTES} bytes, the hour would be "
            f"{more:.2f} more."
        ),
        *item(
            f"For each answer there are {traffic.connections_per_stream} open connections: most "
            f"people read or type. A session has {traffic.answers_per_session} answers."
        ),
        *item(
            f"{traffic.polled:.0%} of the answers are read by long-polls, each by "
            f"{traffic.polls_per_answer}. {traffic.typed:.0%} have parts."
        ),
        *item(
            "A task renews its lease every second, and reads all leases twice a second: "
            f"{renewing:.2f} and {looking:.2f} a month. Every three seconds it looks whether "
            f"tenants have changed: {month_of_looks():.2f}."
        ),
        *item(
            "At rest nobody asks but the canary, where there is one: an answer of "
            f"{CANARY_OUTPUT_TOKENS} tokens a minute, after which all metrics count as sent. "
            "Without it, metrics without an event are not sent, and not paid for."
        ),
        *item(
            f"A message's text has {traffic.prompt_bytes} bytes: the rest of the prompt is the "
            "history. Answers are stored for a day, and usage for the time in the settings."
        ),
        *item(
            f"Not counted: requests of /v1 above {LARGEST_ITEM_TEXT // 1024} KiB (each is written "
            "to S3), the file of each day's usage, the log of requests that a web ACL blocks, "
            "traces of handlers, KMS requests, dead letters, Container Insights where they are on, "
            "backups, data between zones, taxes."
        ),
    ]


def _rows(name: str, traffic: Traffic) -> list[CostRow]:
    templates = [
        json.loads(path.read_text("utf-8")) for path in sorted((_SNAPSHOTS / name).glob("*.json"))
    ]
    return costs(environment(name), templates, traffic)


def _parts(name: str, traffic: Traffic) -> list[str]:
    rows = _rows(name, traffic)
    lines = [
        f"| {row.what} | {row.month_at_rest:,.2f} | {row.hour_of_streams:,.2f} |" for row in rows
    ]
    return [
        f"## {name}",
        "",
        "| | a month at rest | an hour of streams |",
        "|---|---|---|",
        *lines,
        "",
    ]


def _usd(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 0.1 or not amount else f"{amount:.4f}"


def _at_rest(rows: list[CostRow]) -> float:
    return sum(row.month_at_rest for row in rows)


def _delivery(rows: list[CostRow]) -> float:
    return sum(row.hour_of_streams for row in rows) - _model(rows)


def _model(rows: list[CostRow]) -> float:
    return sum(row.hour_of_streams for row in rows if row.what.startswith("Bedrock"))


def _database(rows: list[CostRow]) -> float:
    return sum(row.hour_of_streams for row in rows if row.what == "DynamoDB")
