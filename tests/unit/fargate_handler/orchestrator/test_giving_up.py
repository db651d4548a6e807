"""Messages that lost too many tasks: put aside, and their readers told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.records.answer_record import AnswerRecord
from evenflow.stream_core.stores.dead_letters import LoggedDeadLetters
from evenflow.stream_core.stores.outcome import Outcome
from evenflow.stream_core.stores.response_store import ResponseHead
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task
from tests.unit.fargate_handler.orchestrator.test_failover import SWEEP, lost, text_on_record


async def exhausted() -> tuple[Task, str]:
    """Three tasks were lost while they answered m1; b comes next."""
    _, b, response_id = await lost(tokens="ab")
    head = await b.shared.head(response_id)
    b.shared.memory._heads[response_id] = replace(head, epoch=3, starts={1: 0, 2: 2, 3: 2})
    return b, response_id


async def test_after_three_lost_tasks_the_message_is_put_aside_and_its_readers_hear_why() -> None:
    b, response_id = await exhausted()
    await b.clock.pass_time(SWEEP)
    (letter,) = b.shared.letters.letters
    assert (letter.response_id, letter.channel, letter.message_id) == (
        response_id,
        "t:demo:s",
        "m1",
    )
    assert (letter.attempts, letter.reason) == (3, "attempts_exhausted")
    assert letter.at == pytest.approx(b.clock.now, abs=SWEEP)
    assert b.source.calls == []
    ending = (await b.shared.head(response_id)).ending
    assert ending is not None
    assert ending.state is ResponseState.ERROR
    assert ending.error is not None
    assert ending.error["code"] == "attempts_exhausted"
    (entry,) = await b.shared.ledger()
    assert (entry.answer, entry.ended) == (None, True)
    outcome = Outcome.from_text(entry.outcome, None)
    assert (outcome.state, outcome.contents, outcome.error) == ("error", ("ab",), ending.error)
    assert (b.count(catalogue.DEAD_LETTERS), b.count(catalogue.TAKE_OVERS)) == (1, 0)
    assert await text_on_record(b, response_id) == "ab", "what was delivered stays"
    await b.send("m2", "m1")
    await b.leave()


async def test_what_is_given_up_has_its_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    b, response_id = await exhausted()
    await b.clock.pass_time(SWEEP)
    (line,) = [made.msg for made in caplog.records if isinstance(made.msg, AnswerRecord)]
    assert (line.response_id, line.state, line.error) == (
        response_id,
        "error",
        "attempts_exhausted",
    )
    assert (line.tenant, line.agent, line.message_id, line.epoch) == ("t", "demo", "m1", 4)
    assert (line.output_tokens, line.duration_ms) == (None, None), "nobody is left who knows"
    await b.leave()


async def test_a_reader_that_comes_to_a_response_that_is_being_given_up_hears_its_end() -> None:
    b, response_id = await exhausted()
    finding = asyncio.create_task(b.find(response_id))
    await b.clock.pass_time(3.0)
    reader = b.read(finding.result())
    if reader.left_behind:
        reader = b.read(await b.find(response_id))
    await b.clock.pass_time(3.0)
    stream = await b.find(response_id)
    assert stream.error is not None
    assert stream.error["code"] == "attempts_exhausted"
    assert len(b.shared.letters.letters) == 1
    assert len(b.replicas) == 0


async def test_who_reads_it_already_hears_its_end() -> None:
    b, response_id = await exhausted()
    b.orchestrator.stop_accepting()  # it may not take it over yet
    copy = await b.find(response_id)
    reader = b.read(copy)
    await b.clock.pass_time(1.0)
    assert reader.held.text == "ab"
    b.workload.draining = False
    await b.clock.pass_time(4.0)
    assert reader.left_behind or copy.log.closed
    found = await b.find(response_id)
    assert found.error is not None
    assert found.error["code"] == "attempts_exhausted"


async def test_its_message_has_its_new_response_also_where_the_old_one_was_forgotten() -> None:
    """Somebody has put the message back: it has another response, which another task writes."""
    b, response_id = await exhausted()
    await b.find(response_id)
    await b.clock.pass_time(SWEEP)
    assert (await b.send("m1")).stream.response_id == response_id
    b.orchestrator.sweep(b.clock.now + 301.0)
    session = b.shared._sessions._sessions[CHANNEL]
    session.entries["m1"] = replace(session.entries["m1"], response_id="rsp_new")
    b.shared.memory.create(
        ResponseHead("rsp_new", str(CHANNEL), "m1", "c", 1, b.clock.now, b.clock.now + 86_400.0)
    )
    assert (await b.send("m1")).stream.response_id == "rsp_new"


async def test_while_the_queue_of_dead_letters_is_down_nothing_is_ended() -> None:
    b, response_id = await exhausted()
    b.shared.letters.down = True
    await b.clock.pass_time(3.0)
    assert (await b.shared.head(response_id)).ending is None
    assert b.count(catalogue.DEAD_LETTERS) == 0
    b.shared.letters.down = False
    await b.clock.pass_time(SWEEP)
    assert len(b.shared.letters.letters) == 1
    assert (await b.shared.head(response_id)).ending is not None


@pytest.mark.parametrize("call", ["append", "finish", "answered"])
async def test_a_response_whose_giving_up_was_interrupted_is_given_up_in_the_end(call: str) -> None:
    b, response_id = await exhausted()
    network = b.sessions.network if call == "answered" else b.responses.network
    network.failures[call] = UNREACHABLE
    await b.clock.pass_time(2.0)
    network.failures.clear()
    await b.clock.pass_time(2.0)
    ending = (await b.shared.head(response_id)).ending
    assert ending is not None
    assert ending.next_index == len(await b.shared.stored(response_id))
    assert b.shared.letters.letters
    assert (await b.shared.ledger())[0].ended
    assert b.source.calls == []
    assert b.failover._claimed == set()


async def test_without_a_queue_of_dead_letters_it_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    b, response_id = await exhausted()
    b.failover._dead_letters = LoggedDeadLetters()
    await b.clock.pass_time(SWEEP)
    assert (await b.shared.head(response_id)).ending is not None
    assert f"dead letter: DeadLetter(response_id='{response_id}'" in caplog.text


async def test_owners_that_left_in_order_are_no_losses() -> None:
    b, response_id = await exhausted()
    b.shared.memory._heads[response_id] = replace(await b.shared.head(response_id), hand_overs=1)
    await b.clock.pass_time(SWEEP)
    assert b.shared.letters.letters == []
    assert len(b.source.calls) == 1


async def test_a_response_whose_message_is_gone_is_given_up_too() -> None:
    _, b, response_id = await lost(tokens="a")
    b.shared._sessions._sessions.clear()
    await b.clock.pass_time(SWEEP)
    assert [letter.response_id for letter in b.shared.letters.letters] == [response_id]
    assert (await b.shared.head(response_id)).ending is not None
    assert b.source.calls == []
