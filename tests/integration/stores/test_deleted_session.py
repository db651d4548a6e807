"""What `DELETE /session/{id}` leaves of a session, in each implementation of the stores."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from evenflow.fargate_handler.orchestrator.message_ledger import MessageTexts
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.responses import Responses
from evenflow.fargate_handler.orchestrator.session_messages import SessionMessages
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.memory_store import MemoryLargeTexts
from evenflow.stream_core.stores.outcome import Outcome
from evenflow.stream_core.stores.session_store import LargeTexts
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT
from tests.integration.stores.conftest import DynamoDBStores, FileStores
from tests.integration.stores.stores import NOW, Stores, completed, new_channel, new_message
from tests.unit.hand_turned_clock import HandTurnedClock

_QUESTION, _ANSWER, _LARGE = "the secret question", "the secret answer", "the secret page "


async def _rows(stores: Stores, texts: LargeTexts, folder: Path) -> str:
    """All that is on record, whether it can be read through the stores or not."""
    if isinstance(stores, FileStores):
        with closing(sqlite3.connect(folder / "evenflow.db")) as connection:
            packed = connection.execute("SELECT packed FROM large_texts").fetchall()
            texts_there = [zlib.decompress(text).decode() for (text,) in packed]
            return "\n".join([*connection.iterdump(), *texts_there])
    if isinstance(stores, DynamoDBStores):
        tables = (stores.tables.sessions, stores.tables.ledger, stores.tables.responses)
        found = [
            (await stores.client.scan(TableName=table, ConsistentRead=True))["Items"]
            for table in tables
        ]
        return json.dumps([found, repr(vars(texts))])
    return repr([vars(stores.responses), vars(stores.sessions), vars(texts)])


async def test_only_the_mark_of_its_end_is_left_of_a_deleted_session(
    stores: Stores, tmp_path: Path
) -> None:
    texts: LargeTexts = (
        stores.other.large_texts
        if isinstance(stores, FileStores)
        else MemoryLargeTexts(lambda: NOW)
    )
    kept, channel, limits = MessageTexts(texts), new_channel(), Limits()
    first = new_message(None, _QUESTION)
    second = await kept.put(new_message(first, _LARGE * (LARGEST_ITEM_TEXT // len(_LARGE) + 1)))
    for message in (first, second):
        lease = await stores.sessions.accept(channel, message, NOW)
        await stores.write(lease, 0, [f"{_ANSWER} to {message.message_id}"])
        await stores.responses.finish(lease, completed(1), NOW + 300)
    outcome = Outcome(ResponseState.COMPLETED, [_ANSWER]).to_text(None)
    await stores.sessions.record_answer(channel, first.message_id, _ANSWER, outcome)
    names = [
        name for message in (first, second) for name in (message.message_id, message.response_id)
    ]
    before = await _rows(stores, texts, tmp_path)
    assert all(name in before for name in (_QUESTION, _ANSWER, _LARGE, *names))

    clock = HandTurnedClock()
    context = NodeContext(limits, clock.delivery, Metrics(), clock.monotonic, lambda: NOW)
    here = Responses(limits, MemoryAccount(limits), clock.monotonic)
    messages = SessionMessages(context, stores.sessions, kept, local=here, stored=stores.responses)
    await messages.delete_answers(await messages.end(channel))

    after = await _rows(stores, texts, tmp_path)
    assert [name for name in (_QUESTION, _ANSWER, _LARGE, *names) if name in after] == []
    assert (await stores.sessions.head(channel, NOW)).ended
