"""What an environment costs, computed from its synthesized templates
(`tests/infrastructure/snapshots`) and the prices.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from docs.markdown import item, paragraph
from fargate_handler.orchestrator.message_ledger import LARGEST_ITEM_TEXT
from infra.costs import Row, Traffic, costs, month_of_a_lease
from infra.environments import ENVIRONMENTS, environment

_SNAPSHOTS = Path(__file__).resolve().parent.parent / "tests" / "infrastructure" / "snapshots"
_SLOW_WRITES_MS = 1_000
_WRITING_SECONDS = 0.025  # on top of EVENFLOW_STORE_INTERVAL_MS, as Traffic has it


def costs_page(note: str) -> str:
    """The costs of each environment, and what they are made of."""
    traffic = Traffic()
    rows = [_rows(name, traffic) for name in ENVIRONMENTS]
    lines = (
        ("a month at rest", map(_at_rest, rows)),
        (
            f"an hour of {traffic.streams:,} answers at each moment, without the model",
            map(_delivery, rows),
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
                "prices ([sources](../infra/prices.py)). `make deploy` prints it before it asks, "
                "with the quotas that the account needs ([aws.md](aws.md))."
            ),
            "",
            f"| | {' | '.join(ENVIRONMENTS)} |",
            f"|---|{'---|' * len(rows)}",
            *(
                f"| {what} | {' | '.join(f'{it:,.2f}' for it in figures)} |"
                for what, figures in lines
            ),
            "",
            *_parts("dev", traffic),
            *_parts("prod", traffic),
            *_assumptions(traffic),
            "",
        ]
    )


def _assumptions(traffic: Traffic) -> list[str]:
    seldom = replace(traffic, chunk_seconds=_SLOW_WRITES_MS / 1000 + _WRITING_SECONDS)
    often_usd, seldom_usd = _database(_rows("dev", traffic)), _database(_rows("dev", seldom))
    prompt, answer = (
        f"{traffic.input_tokens:,} tokens",
        f"{traffic.output_tokens} tokens in {traffic.answer_seconds:g} s",
    )
    renewing, looking = month_of_a_lease()
    frames = f"{traffic.frames_per_second:g} frames a second of {traffic.frame_bytes} bytes"
    return [
        "## What is assumed",
        "",
        *item(
            f"A prompt has {prompt}, an answer {answer}: {traffic.answers_per_hour:,.0f} answers "
            "an hour."
        ),
        *item(f"It comes in {frames}."),
        *item(
            f"For each answer there are {traffic.connections_per_stream} open connections: most "
            "people read or type."
        ),
        *item(f"{traffic.polled:.0%} of the answers are read by long-polls."),
        *item(
            f"An answer's text is written to DynamoDB every {traffic.chunk_seconds * 1000:g} ms. "
            f"With `EVENFLOW_STORE_INTERVAL_MS={_SLOW_WRITES_MS}` that part is {seldom_usd:,.2f} "
            f"instead of {often_usd:,.2f}, and readers of long-polls wait up to a second for text."
        ),
        *item(
            "A task renews its lease every second, and reads all leases twice a second: "
            f"{renewing:.2f} and {looking:.2f} a month."
        ),
        *item(
            f"Not counted: requests of /v1 above {LARGEST_ITEM_TEXT // 1024} KiB (each is written "
            "to S3), logs, traces, KMS requests, dead letters, Container Insights, data between "
            "zones, storage, taxes."
        ),
    ]


def _rows(name: str, traffic: Traffic) -> list[Row]:
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


def _at_rest(rows: list[Row]) -> float:
    return sum(row.month_at_rest for row in rows)


def _delivery(rows: list[Row]) -> float:
    return sum(row.hour_of_streams for row in rows) - _model(rows)


def _model(rows: list[Row]) -> float:
    return sum(row.hour_of_streams for row in rows if row.what.startswith("Bedrock"))


def _database(rows: list[Row]) -> float:
    return sum(row.hour_of_streams for row in rows if row.what == "DynamoDB")
