"""The store of the chaos harness: DynamoDB emulated in a process of its own.

    python -m tests.chaos.store PORT PREFIX

POST /admin/throttle {"share": 0.3}   so many requests are refused, or done in part
POST /admin/reset    {}               whoever asks has its connection reset
POST /admin/heal     {}               as if nothing had been
"""

from __future__ import annotations

import asyncio
import sys

import uvloop
from aiohttp import web

from bench.processes import end_with_parent
from tests.integration.dynamodb_emulator import DynamoDBEmulator
from tests.integration.dynamodb_faults import Fault


async def _administer(emulator: DynamoDBEmulator, request: web.Request) -> web.Response:
    command = await request.json()
    await emulator.heal()
    match request.match_info["what"]:
        case "throttle":
            emulator.inject(Fault.UNPROCESSED, "BatchWriteItem", share=command["share"])
            emulator.inject(Fault.THROTTLED, share=command["share"])
        case "reset":
            emulator.inject(Fault.RESET_BEFORE)
    return web.json_response({})


async def _serve(port: int, prefix: str) -> None:
    emulator = DynamoDBEmulator(port)
    emulator.create_tables(prefix)
    emulator.application.router.add_post(
        "/admin/{what}", lambda request: _administer(emulator, request)
    )
    await emulator.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    end_with_parent()
    uvloop.run(_serve(int(sys.argv[1]), sys.argv[2]))
