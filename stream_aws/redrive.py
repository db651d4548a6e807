"""`python -m evenflow.stream_aws.redrive --env dev` (make redrive): dead letters get a new try."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from evenflow.stream_aws.dynamodb import UNREACHABLE, client_config
from evenflow.stream_aws.redriving import Redriven, Redriving
from evenflow.stream_aws.sqs_dead_letters import CLIENT_CONFIG
from evenflow.stream_core.stores.response_store import StoreUnavailable

NAMES = {
    "ledger": "{installation}-{env}-ledger",
    "responses": "{installation}-{env}-responses",
    "queue": "{installation}-{env}-dead-letters",
}
"""The stacks' names, by option."""

_HEADING = ("given up at", "message", "channel", "attempts", "outcome", "response")
_WIDTHS = (20, 24, 40, 9, 26, 36)


def main() -> int:
    """Redrive. Returns the exit status: 1 when AWS can't be reached or refuses."""
    arguments = _arguments()
    try:
        asyncio.run(_run(arguments))
    except (StoreUnavailable, ClientError, *UNREACHABLE) as error:
        print(f"redrive: {error}", file=sys.stderr)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.stream_aws.redrive", description=__doc__
    )
    parser.add_argument("--env", required=True, help="the environment: dev, staging or prod")
    parser.add_argument(
        "--installation", default="evenflow", help="what names begin with (default: %(default)s)"
    )
    parser.add_argument(
        "--limit", type=int, default=100, help="at most so many letters (default: %(default)s)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and leave the letters there"
    )
    parser.add_argument(
        "--region",
        default=os.environ.get("AWS_REGION"),
        help="default: AWS_REGION, or the profile's",
    )
    for option, name in NAMES.items():
        parser.add_argument(
            f"--{option}", default=name, metavar="NAME", help="default: %(default)s"
        )
    arguments = parser.parse_args()
    if arguments.limit < 1:
        parser.error("--limit must be at least 1")
    return arguments


async def _run(arguments: argparse.Namespace) -> None:
    async with _redriving(arguments) as redriving:
        letters = (
            redriving.look(arguments.limit)
            if arguments.dry_run
            else redriving.redrive(arguments.limit)
        )
        count = 0
        async for redriven in letters:
            if count == 0:
                _print_row(_HEADING)
            _print_row(_cells(redriven))
            count += 1
    print(f"letters: {count}")


@asynccontextmanager
async def _redriving(arguments: argparse.Namespace) -> AsyncIterator[Redriving]:
    session = get_session()
    async with AsyncExitStack() as clients:
        dynamodb, sqs = [
            await clients.enter_async_context(
                session.create_client(service, region_name=arguments.region, config=config)
            )
            for service, config in (("dynamodb", client_config(1)), ("sqs", CLIENT_CONFIG))
        ]
        ledger, responses, queue = (
            getattr(arguments, option).format(
                installation=arguments.installation, env=arguments.env
            )
            for option in NAMES
        )
        queue_url = (await sqs.get_queue_url(QueueName=queue))["QueueUrl"]
        yield Redriving(
            dynamodb,
            sqs,
            ledger=ledger,
            responses=responses,
            queue_url=queue_url,
            wall_time=time.time,
        )


def _cells(redriven: Redriven) -> tuple[str, ...]:
    letter, response_id = redriven.letter, redriven.response_id or ""
    if letter is None:
        return "", "", "", "", redriven.outcome, response_id
    at = datetime.fromtimestamp(letter.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        at,
        letter.message_id,
        letter.channel,
        str(letter.attempts),
        redriven.outcome,
        response_id,
    )


def _print_row(cells: tuple[str, ...]) -> None:
    print(
        " ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip(),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
