"""Carries attacks out, and measures what honest readers and the server notice of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from bench.demo_model import Script
from tests.attack.asking import BROKEN
from tests.attack.attack import Attack, Judged, Scene
from tests.attack.honest import PATIENCE_SECONDS, READERS, Question, Reader
from tests.attack.plan import Plan
from tests.attack.target import Target
from tests.attack.tokens import HONEST, KEYED
from tests.attack.verdict import BACK_WITHIN, MIB, Disk, Measured, Memory
from tests.attack.wire import ATTACKER, Client
from tests.aws.child_process import ChildProcess
from tests.chaos.waiting import until
from tests.integration.server_process import ROOT, clean_environment, free_port

_START_SECONDS = 40.0
_ASK_AT_ONCE = 8
_HELD = "memory_held_bytes"
_DISK_LOOK_SECONDS = 0.5


@asynccontextmanager
async def target(attack: Attack, folder: Path) -> AsyncIterator[Target]:
    """The server for an attack, with the model that it needs."""
    with ExitStack() as stack:
        variables, model_port = dict(attack.settings), 0
        if attack.hostile_model:
            model_port = free_port()
            command = [sys.executable, "-m", "tests.attack.hostile_model", str(model_port)]
            model = ChildProcess(command, clean_environment({}), folder / "model.log")
            stack.callback(model.stop)
            model.wait_until_accepting(model_port, _START_SECONDS)
            variables |= {
                "EVENFLOW_MODEL": "openai",
                "EVENFLOW_MODEL_URL": f"http://127.0.0.1:{model_port}/v1",
                "EVENFLOW_MODEL_NAME": "demo",
            }
        server = Target(folder, variables, model_port)
        stack.callback(server.kill)
        server.wait_until_serving()
        yield server


@dataclass
class HonestReaders:
    """The process of honest readers, and what it has said so far."""

    process: asyncio.subprocess.Process
    questions: list[Question] = field(default_factory=list)

    async def listen(self) -> None:
        """Take what it says, to its end."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.questions.append(Question(**json.loads(line)))

    async def stop(self) -> None:
        """Have the last questions answered."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS + 2):
                await self.process.wait()


@asynccontextmanager
async def honest_readers(port: int, tenant: str) -> AsyncIterator[HonestReaders]:
    """Honest readers of the server at this port. `tenant`: whose key they use; empty: none."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.attack.honest",
        str(port),
        tenant,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    readers = HonestReaders(process)
    listening = asyncio.create_task(readers.listen())
    try:
        yield readers
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listening


async def measure(attacks: Sequence[Attack], plan: Plan, folder: Path) -> list[Measured]:
    """Carry out attacks of like needs that are judged by what honest readers notice, one after
    the other on one server.
    """
    began, tenant = list[float](), _honest_tenant(attacks[0])
    async with (
        target(attacks[0], folder) as server,
        honest_readers(server.port, tenant) as readers,
    ):
        await until(lambda: bool(readers.questions), _START_SECONDS)
        await _warm_up(server.port, tenant, plan)
        measured = list[Measured]()
        for attack in attacks:
            await asyncio.sleep(plan.warm_seconds)
            began.append(monotonic())
            used = server.cpu_seconds
            await asyncio.sleep(plan.calm_seconds)
            calm = (server.cpu_seconds - used) / plan.calm_seconds
            measured.append(await _strike_and_settle(attack, plan, server, calm))
        await asyncio.sleep(plan.calm_seconds)
        await readers.stop()
    ends = [begin - plan.warm_seconds for begin in began[1:]]
    for it, begin, end in zip(measured, began, [*ends, monotonic()], strict=True):
        it.questions = [one for one in readers.questions if begin <= one.asked_at < end]
    return measured


def _honest_tenant(attack: Attack) -> str:
    return HONEST if attack.settings.keys() >= KEYED.keys() else ""


async def _warm_up(port: int, tenant: str, plan: Plan) -> None:
    """Have questions answered: pages of the store and tables that are filled once are filled then,
    and not counted as an attack's.
    """
    numbers = iter(range(plan.warm_questions))

    async def ask(make: Callable[[Client, str], Reader]) -> None:
        reader = make(Client(port), tenant)
        for number in numbers:
            try:
                await reader.ask(Script(1, 0, number).question)
            except BROKEN:
                reader.begin_again()

    await asyncio.gather(*[ask(make) for make in READERS.values() for _ in range(_ASK_AT_ONCE)])


async def _strike_and_settle(
    attack: Attack, plan: Plan, server: Target, calm_cpu: float
) -> Measured:
    before, held = server.resident_bytes, await server.metric(_HELD)
    server.forget_peak()
    measured = await strike(attack, plan, server)
    peak = server.peak_resident_bytes
    enough = BACK_WITHIN * before + plan.slack_mib * MIB
    await until(lambda: server.resident_bytes <= enough, plan.settle_seconds)
    kept = max(0, round(await server.metric(_HELD) - held))
    measured.memory = Memory(before, peak, server.resident_bytes, kept)
    measured.cpu_before = calm_cpu
    if measured.disk is not None:
        measured.disk = replace(measured.disk, after=server.stored_bytes)
    return measured


async def strike(attack: Attack, plan: Plan, server: Target) -> Measured:
    """Carry out an attack; what it leaves open is reset at its end."""
    attacker, other = Client(server.port, ATTACKER), Client(server.port)
    stranger = Client(server.port, ATTACKER, behind_proxy=True)
    clients = (attacker, stranger, other)
    scene = Scene(plan, server, *clients)
    logged, used, stored = server.log_bytes, server.cpu_seconds, server.stored_bytes
    async with _largest_store(server) as sizes:
        began_at = monotonic()
        await _carry_out(attack, scene)
        ended_at = monotonic()
    serves = server.process.poll() is None
    for client in clients:
        client.close()
    if attack.judged is not Judged.ALONE and not serves:
        scene.misses.append(f"the server ended with {server.process.poll()}")
    if b"Traceback" in server.log_file.read_bytes()[logged:]:
        scene.misses.append("a traceback was logged")
    opened = sum(client.opened for client in clients)
    return Measured(
        attack.name,
        slower_seconds=plan.slower_seconds,
        grows_mib=attack.grows_mib,
        stores_mib=attack.stores_mib,
        slack_mib=plan.slack_mib,
        began_at=began_at,
        ended_at=ended_at,
        did="; ".join([*scene.deeds, f"{opened:,} connections"]),
        disk=Disk(stored, max(sizes), server.stored_bytes),
        cpu_during=(server.cpu_seconds - used) / (ended_at - began_at) if serves else None,
        sent_bytes=sum(client.sent_bytes for client in clients),
        log_bytes=server.log_bytes - logged,
        log_lines=server.log_lines(logged),
        misses=scene.misses,
    )


async def _carry_out(attack: Attack, scene: Scene) -> None:
    plan, began_at = scene.plan, monotonic()
    try:
        async with asyncio.timeout(plan.patience_seconds):
            await attack.strike(scene)
            if attack.judged is Judged.BY_READERS:
                # Who is refused at once is done at once; others are watched for a while yet.
                await asyncio.sleep(began_at + plan.strike_seconds - monotonic())
    except TimeoutError:
        late = f"not done after {plan.patience_seconds:g} s"
        scene.did(late)
        scene.must(attack.judged is Judged.BY_READERS, late)
    except (OSError, asyncio.IncompleteReadError) as error:
        scene.misses.append(f"the server ended a connection: {type(error).__name__} {error}")


@asynccontextmanager
async def _largest_store(server: Target) -> AsyncIterator[list[int]]:
    """Note the size of the store every half second, until the end of the block."""
    sizes = list[int]()

    async def look() -> None:
        while True:
            sizes.append(server.stored_bytes)
            await asyncio.sleep(_DISK_LOOK_SECONDS)

    looking = asyncio.create_task(look())
    try:
        yield sizes
    finally:
        looking.cancel()
        sizes.append(server.stored_bytes)


async def strike_together(
    attacks: Sequence[Attack], plan: Plan, folder: Path
) -> AsyncIterator[Measured]:
    """Carry out attacks of like needs that are judged by their outcome, on one server."""
    async with target(attacks[0], folder) as server:
        for attack in attacks:
            yield await strike(attack, plan, server)


def groups(attacks: Sequence[Attack], plan: Plan) -> list[list[Attack]]:
    """Those that are carried out on one server, in the order of the first of each."""
    found: dict[object, list[Attack]] = {}
    for attack in attacks:
        found.setdefault(_needs(attack, plan), []).append(attack)
    return list(found.values())


def _needs(attack: Attack, plan: Plan) -> object:
    own = attack.judged is Judged.BY_READERS and not plan.shares_servers
    if own or attack.judged is Judged.ALONE:
        return attack.name
    return attack.judged, attack.hostile_model, frozenset(attack.settings.items())
