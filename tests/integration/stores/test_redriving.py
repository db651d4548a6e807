"""Dead letters in an emulated SQS, and the messages that get another life from them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiobotocore.session import AioSession

from evenflow.stream_aws.redrive import main
from evenflow.stream_aws.redriving import Redriven, RedriveOutcome, Redriving
from evenflow.stream_aws.sqs_dead_letters import CLIENT_CONFIG, SqsDeadLetters
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.dead_letters import DeadLetter, DeadLettersUnavailable
from evenflow.stream_core.stores.response_store import Ending, Lease, StoreUnavailable
from evenflow.stream_core.stores.session_store import LedgerEntry
from tests.integration.aws_emulator import REGION, AwsEmulator
from tests.integration.dynamodb_faults import Fault
from tests.integration.server_process import free_port
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import (
    LIFETIME,
    NOW,
    lease_of,
    new_channel,
    new_message,
    new_name,
)

LATER = NOW + 60.0
"""When letters are redriven."""


@dataclass
class DeadLetterOffice:
    """The stores of a few tasks, their queue of dead letters, and somebody who redrives them."""

    stores: DynamoDBStores
    sqs: Any
    queue_url: str

    @property
    def letters(self) -> SqsDeadLetters:
        return SqsDeadLetters(self.sqs, self.queue_url)

    def redriving(self, now: float = LATER) -> Redriving:
        return Redriving(
            self.stores.client,
            self.sqs,
            ledger=self.stores.tables.ledger,
            responses=self.stores.tables.responses,
            queue_url=self.queue_url,
            wall_time=lambda: now,
        )

    async def redrive(self, limit: int = 100, now: float = LATER) -> list[Redriven]:
        return [redriven async for redriven in self.redriving(now).redrive(limit)]

    async def look(self, limit: int = 100) -> list[Redriven]:
        return [redriven async for redriven in self.redriving().look(limit)]

    async def give_up(self) -> tuple[DeadLetter, Channel, LedgerEntry]:
        """A message that was accepted, given up and put aside."""
        channel, message = new_channel(), new_message(None)
        lease = await self.stores.sessions.accept(channel, message, NOW)
        letter = DeadLetter(
            lease.response_id, str(channel), message.message_id, 3, "attempts_exhausted", NOW
        )
        await self.letters.send(letter)
        await self.stores.responses.finish(lease, Ending(ResponseState.ERROR, 0, NOW), NOW + 300)
        await self.stores.sessions.record_answer(channel, message.message_id, None)
        return letter, channel, message

    async def known(self, channel: Channel) -> LedgerEntry:
        """The one message of a session, as any task reads it."""
        (entry,) = (await self.stores.sessions.load(channel, LATER)).messages
        return entry

    async def left_to_take_over(self) -> set[str]:
        """Responses of lost owners, as the tasks' sweep finds them."""
        lost = [lease for lease in await self.stores.responses.leases() if lease.lost]
        found = [await self.stores.responses.unfinished(lease.owner) for lease in lost]
        return {response_id for response_ids in found for response_id in response_ids}

    async def counts(self) -> tuple[int, int]:
        """Letters that wait, and letters that somebody is looking at."""
        answer = await self.sqs.get_queue_attributes(
            QueueUrl=self.queue_url, AttributeNames=["All"]
        )
        attributes = answer["Attributes"]
        return (
            int(attributes["ApproximateNumberOfMessages"]),
            int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        )


@pytest.fixture
async def office(
    dynamodb_stores: DynamoDBStores,
    emulated_aws: AwsEmulator,
    sdk: AioSession,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[DeadLetterOffice]:
    # The emulator is one server, which knows at once that there are no more.
    monkeypatch.setattr("evenflow.stream_aws.redriving._WAIT_SECONDS", 0)
    async with sdk.create_client(
        "sqs",
        config=CLIENT_CONFIG,
        endpoint_url=emulated_aws.endpoint,
        region_name=REGION,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    ) as sqs:
        queue = await sqs.create_queue(QueueName=new_name("dead-letters"))
        yield DeadLetterOffice(dynamodb_stores, sqs, queue["QueueUrl"])


async def test_a_redriven_message_is_taken_up_as_what_any_task_leaves(
    office: DeadLetterOffice,
) -> None:
    letter, channel, message = await office.give_up()
    (redriven,) = await office.redrive()
    assert (redriven.outcome, redriven.letter) == (RedriveOutcome.REDRIVEN, letter)
    assert redriven.response_id is not None
    assert redriven.response_id != letter.response_id
    entry = await office.known(channel)
    assert (entry.response_id, entry.text, entry.ended) == (
        redriven.response_id,
        message.text,
        False,
    )
    assert redriven.response_id in await office.left_to_take_over()
    lease = lease_of(await office.stores.responses.take_over(redriven.response_id, "task-b", LATER))
    assert lease == Lease(redriven.response_id, "task-b", 2)
    assert await office.stores.read(redriven.response_id, now=LATER) == []
    assert await office.counts() == (0, 0)


async def test_the_response_that_was_given_up_stays_as_it_was(office: DeadLetterOffice) -> None:
    letter, _, _ = await office.give_up()
    before = await office.stores.responses.head(letter.response_id, LATER)
    await office.redrive()
    assert await office.stores.responses.head(letter.response_id, LATER) == before
    assert letter.response_id not in await office.left_to_take_over()


async def test_a_letter_that_comes_twice_does_nothing_the_second_time(
    office: DeadLetterOffice,
) -> None:
    letter, channel, _ = await office.give_up()
    (redriven,) = await office.redrive()
    await office.letters.send(letter)
    (again,) = await office.redrive()
    assert again == Redriven(RedriveOutcome.REDRIVEN_BEFORE, letter, redriven.response_id)
    assert (await office.known(channel)).response_id == redriven.response_id
    assert await office.counts() == (0, 0)


async def test_of_two_who_redrive_the_same_letter_one_does(office: DeadLetterOffice) -> None:
    letter, channel, _ = await office.give_up()
    await office.letters.send(letter)
    both = await asyncio.gather(office.redrive(limit=1), office.redrive(limit=1))
    outcomes = {redriven.outcome: redriven.response_id for (redriven,) in both}
    assert outcomes.keys() == {RedriveOutcome.REDRIVEN, RedriveOutcome.REDRIVEN_BEFORE}
    assert set(outcomes.values()) == {(await office.known(channel)).response_id}


async def test_a_message_that_has_expired_is_given_up_for_good(office: DeadLetterOffice) -> None:
    letter, _, _ = await office.give_up()
    assert await office.redrive(now=NOW + LIFETIME) == [Redriven(RedriveOutcome.EXPIRED, letter)]
    assert await office.counts() == (0, 0)


async def test_a_message_that_nobody_knows_is_given_up_for_good(office: DeadLetterOffice) -> None:
    letter = DeadLetter("rsp_unknown", str(new_channel()), "m1", 3, "attempts_exhausted", NOW)
    await office.letters.send(letter)
    assert await office.redrive() == [Redriven(RedriveOutcome.EXPIRED, letter)]
    assert await office.counts() == (0, 0)


@pytest.mark.parametrize("body", ["hello", "{}", "[]", '{"response_id": 7}'])
async def test_what_is_no_letter_stays_in_the_queue(office: DeadLetterOffice, body: str) -> None:
    await office.sqs.send_message(QueueUrl=office.queue_url, MessageBody=body)
    assert await office.redrive() == [Redriven(RedriveOutcome.UNREADABLE, None)]
    assert await office.counts() == (0, 1)


async def test_who_only_looks_changes_nothing(office: DeadLetterOffice) -> None:
    letter, channel, _ = await office.give_up()
    unknown = DeadLetter("rsp_unknown", str(new_channel()), "m1", 3, "attempts_exhausted", NOW)
    await office.letters.send(unknown)
    before = await office.known(channel)
    looked = await office.look()
    assert {r.letter: r.outcome for r in looked} == {
        letter: RedriveOutcome.WOULD_BE_REDRIVEN,
        unknown: RedriveOutcome.EXPIRED,
    }
    assert await office.known(channel) == before
    assert await office.counts() == (2, 0)
    assert {r.outcome for r in await office.redrive()} == {
        RedriveOutcome.REDRIVEN,
        RedriveOutcome.EXPIRED,
    }


async def test_no_more_letters_than_one_wants(office: DeadLetterOffice) -> None:
    for _ in range(13):
        await office.give_up()
    assert len(await office.redrive(limit=12)) == 12
    assert await office.counts() == (1, 0)


@pytest.mark.usefixtures("short_pauses")
async def test_a_letter_whose_message_could_not_be_redriven_is_kept(
    office: DeadLetterOffice,
) -> None:
    _, channel, _ = await office.give_up()
    before = await office.known(channel)
    office.stores.dynamodb.inject(Fault.THROTTLED, "TransactWriteItems")
    with pytest.raises(StoreUnavailable):
        await office.redrive()
    await office.stores.dynamodb.heal()
    assert await office.known(channel) == before
    assert await office.counts() == (0, 1)


@pytest.mark.usefixtures("short_pauses")
async def test_a_redrive_whose_answer_is_lost_is_done_once(office: DeadLetterOffice) -> None:
    _, channel, _ = await office.give_up()
    office.stores.dynamodb.inject(Fault.RESET_AFTER, "TransactWriteItems", times=1)
    (redriven,) = await office.redrive()
    assert redriven.outcome is RedriveOutcome.REDRIVEN
    assert (await office.known(channel)).response_id == redriven.response_id


async def test_a_queue_that_is_not_there(office: DeadLetterOffice, sdk: AioSession) -> None:
    letter = DeadLetter("rsp_1", "t:a:s", "m1", 3, "attempts_exhausted", NOW)
    with pytest.raises(DeadLettersUnavailable, match="NonExistentQueue"):
        await SqsDeadLetters(office.sqs, f"{office.queue_url}-no").send(letter)
    nowhere = f"http://127.0.0.1:{free_port()}"
    async with sdk.create_client(
        "sqs",
        config=CLIENT_CONFIG,
        endpoint_url=nowhere,
        region_name=REGION,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    ) as sqs:
        with pytest.raises(DeadLettersUnavailable):
            await SqsDeadLetters(sqs, f"{nowhere}/111111111111/letters").send(letter)


Command = Callable[..., Awaitable[tuple[int, str, str]]]
"""`make redrive` with these options: its exit status, and what it printed on either way."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    async def command(environment: Mapping[str, str], *options: str) -> tuple[int, str, str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["redrive", "--env", "test", *options])
        status = await asyncio.to_thread(main)
        return (status, *capsys.readouterr())

    return command


async def test_the_command_says_what_it_did(
    office: DeadLetterOffice, emulated_aws: AwsEmulator, command: Command
) -> None:
    environment = emulated_aws.environment | office.stores.dynamodb.environment
    letter, _, _ = await office.give_up()
    queue = office.queue_url.rpartition("/")[2]
    tables = office.stores.tables
    options = ("--ledger", tables.ledger, "--responses", tables.responses, "--queue", queue)
    status, printed, complained = await command(environment, "--dry-run", *options)
    assert (status, complained) == (0, "")
    assert "would be redriven" in printed
    status, printed, complained = await command(environment, *options)
    assert (status, complained) == (0, "")
    heading, row, total = printed.splitlines()
    assert heading.startswith("given up at")
    assert row.startswith("2027-01-15 08:00 UTC")
    assert letter.message_id in row
    assert " redriven " in row
    assert total == "letters: 1"
    assert await command(environment, *options) == (0, "letters: 0\n", "")


async def test_the_command_says_what_is_wrong_in_one_line(
    emulated_aws: AwsEmulator, command: Command
) -> None:
    status, printed, complained = await command(emulated_aws.environment)
    assert (status, printed) == (1, "")
    assert complained.startswith("redrive: ")
    assert "NonExistentQueue" in complained
    assert len(complained.splitlines()) == 1
