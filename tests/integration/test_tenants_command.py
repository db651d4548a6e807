"""`evenflow tenants`: what an operator types, what is printed, and what servers see of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from evenflow.__main__ import main
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import QuotaLimits, Scope, Tenant
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.chat_client import call
from tests.integration.conftest import Serve
from tests.integration.dynamodb_emulator import DynamoDBEmulator
from tests.integration.server_process import ROOT, clean_environment


class Said(NamedTuple):
    """What a command said."""

    status: int
    out: str
    err: str

    @property
    def key(self) -> str:
        """The key that was printed, which is all that a program reads."""
        assert self.status == 0, self.err
        (key,) = self.out.splitlines()
        assert key.startswith("evf_")
        assert key not in self.err
        return key


Command = Callable[..., Said]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evenflow.db"


@pytest.fixture(params=["sqlite", "dynamodb"])
def store(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of a store, a file or a table."""
    chosen: str = request.param
    monkeypatch.setenv("EVENFLOW_STORE", chosen)
    monkeypatch.setenv("EVENFLOW_STORE_PATH", str(path))
    if chosen == "dynamodb":
        emulator: DynamoDBEmulator = request.getfixturevalue("emulated_dynamodb")
        tables = emulator.create_tables(f"test{time.monotonic_ns()}")
        monkeypatch.setenv("EVENFLOW_TENANTS_TABLE", str(tables.tenants))
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)


@pytest.fixture
def tenants(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `evenflow tenants …`."""

    def tenants(*arguments: str) -> Said:
        try:
            status = main(["tenants", *arguments])
        except SystemExit as refused:
            status = int(str(refused.code))
        out, err = capsys.readouterr()
        return Said(status, out, err)

    return tenants


def _records(tenants: Command) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(tenants("list", "--json").out)
    return listed


@pytest.mark.usefixtures("store")
def test_a_tenant_from_its_first_key_to_its_end(tenants: Command) -> None:
    assert tenants("list").out == ""
    first = tenants("add", "acme", "--weight", "2", "--tokens-per-minute", "100000")
    assert "tenant acme was added" in first.err
    assert "acme    2       standard" in tenants("list").out
    assert first.key.split("_")[1] in tenants("list").out

    rotated = tenants("rotate", "acme", "--overlap", "1h")
    assert rotated.key != first.key
    keys = _records(tenants)[0]["keys"]
    assert isinstance(keys, list)
    old, new = keys
    assert old["expires_at"] == pytest.approx(time.time() + 3_600, abs=60)
    assert "expires_at" not in new
    assert f"{old['id']} until" in rotated.err

    changed = tenants("limit", "acme", "--tokens-per-minute", "none", "--class", "batch")
    assert (changed.status, "tokens-per-minute" in changed.out) == (0, False)
    assert (_records(tenants)[0]["service_class"], _records(tenants)[0]["weight"]) == ("batch", 2.0)

    removed = tenants("remove", "acme")
    assert removed.status == 0
    assert "no tenant is left, and callers still need a key" in removed.err
    assert _records(tenants) == []
    assert "there is no tenant acme; there are: none yet" in tenants("remove", "acme").err


@pytest.mark.usefixtures("store")
def test_the_first_tenant_closes_the_servers_and_only_words_open_them(tenants: Command) -> None:
    assert "from now on sessions and /v1 need a key" in tenants("add", "acme").err
    assert "from now on" not in tenants("add", "globex").err
    assert tenants("add", "public", "--open").key
    assert "open" in tenants("list").out.splitlines()[-1]
    assert [record["open"] for record in _records(tenants)] == [False, False, True]
    assert tenants("limit", "public", "--no-open").status == 0
    assert not any(record["open"] for record in _records(tenants))


def test_a_tenant_comes_back_from_a_copy_with_its_keys(
    tenants: Command, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = path.with_name("copy.db")
    monkeypatch.setenv("EVENFLOW_STORE_PATH", str(copy))
    tenants("add", "acme", "--weight", "2")
    copied = _records(tenants)
    monkeypatch.setenv("EVENFLOW_STORE_PATH", str(path))
    tenants("add", "acme", "--weight", "3")
    restored = tenants("restore", "acme", "--from", str(copy))
    assert (restored.status, f"tenant acme of {copy} is in {path} again" in restored.err) == (
        0,
        True,
    )
    assert _records(tenants) == copied
    missing = tenants("restore", "other", "--from", str(copy))
    assert (missing.status, "there is no tenant other; there are: acme" in missing.err) == (1, True)


@pytest.mark.usefixtures("store")
def test_a_tenant_may_have_several_keys_each_with_scopes_and_bounds_of_its_own(
    tenants: Command,
) -> None:
    assert "there is no tenant acme" in tenants("key", "acme").err
    first = tenants("add", "acme").key.split("_")[1]
    more = tenants("key", "acme", "--scopes", "read", "--requests-per-minute", "5")
    second = more.key.split("_")[1]
    assert f"{second} (read, requests-per-minute=5)" in tenants("list").out
    assert f"the keys {first}, {second}: say which one" in tenants("rotate", "acme").err
    assert "has no key x; it has" in tenants("key", "acme", "--remove", "x").err
    assert tenants("key", "acme", "--remove", first).status == 0
    assert [key["id"] for key in _records(tenants)[0]["keys"]] == [second]  # type: ignore[attr-defined]
    last = tenants("key", "acme", "--remove", second)
    assert (last.status, "its only key" in last.err) == (1, True)


@pytest.mark.usefixtures("store")
def test_what_cannot_be_done_is_said_in_a_line_and_changes_nothing(tenants: Command) -> None:
    for arguments in (("rotate", "acme"), ("limit", "acme", "--weight", "3"), ("remove", "acme")):
        said = tenants(*arguments)
        assert said == Said(1, "", "evenflow: there is no tenant acme; there are: none yet\n")
    assert tenants("add", "acme").key
    again = tenants("add", "acme", "--weight", "3")
    assert (again.status, again.out) == (1, "")
    assert "tenant acme exists already, and was not changed" in again.err
    assert "is as it was" in tenants("limit", "acme").err
    assert "no valid key x; it has" in tenants("rotate", "acme", "--key", "x").err
    assert len(_records(tenants)) == 1
    assert _records(tenants)[0]["weight"] == 1.0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("option", "variables", "missing"),
    [
        ("--dollars-per-month", {}, "demo"),
        ("--user-dollars-per-month", {"EVENFLOW_MODEL_NAME": "small"}, "small"),
        ("--dollars-per-month", {"EVENFLOW_MODEL_PRICES": "other=1/2"}, "demo"),
        (
            "--dollars-per-month",
            {"EVENFLOW_MODELS": "fast=org/small,large", "EVENFLOW_MODEL_PRICES": "large=1/2"},
            "org/small",
        ),
    ],
)
def test_a_budget_in_dollars_of_a_model_without_a_price_is_refused_and_changes_nothing(
    tenants: Command,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    variables: dict[str, str],
    missing: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    added = tenants("add", "acme", option, "5")
    assert (added.status, added.out, added.err.count("\n")) == (1, "", 1)
    assert f"the price of {missing}" in added.err
    assert "EVENFLOW_MODEL_PRICES" in added.err
    assert f"{missing}=2.50/10" in added.err
    assert _records(tenants) == []
    assert tenants("add", "acme").key
    assert tenants("limit", "acme", option, "5").status == 1
    assert "dollars" not in json.dumps(_records(tenants))

    monkeypatch.setenv("EVENFLOW_MODEL_PRICES", f"{missing}=2.50/10,large=1/2")
    assert tenants("limit", "acme", option, "5").status == 0
    monkeypatch.delenv("EVENFLOW_MODEL_PRICES")
    assert tenants("limit", "acme", "--weight", "2").status == 0, "the budget was there before"
    assert tenants("limit", "acme", "--models", "new").status == 1
    assert tenants("limit", "acme", option, "none", "--models", "new").status == 0


@pytest.mark.usefixtures("store")
def test_only_the_models_that_a_tenant_may_ask_need_a_price(
    tenants: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENFLOW_MODELS", "fast=org/small,large")
    monkeypatch.setenv("EVENFLOW_MODEL_PRICES", "org/small=0/0")
    assert tenants("add", "acme", "--dollars-per-month", "5", "--models", "fast").key
    assert tenants("limit", "acme", "--models", "fast,large").status == 1


@pytest.mark.usefixtures("store")
def test_prices_that_cannot_be_read_are_told_with_what_is_accepted(
    tenants: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENFLOW_MODEL_PRICES", "demo=cheap")
    said = tenants("add", "acme", "--dollars-per-month", "5")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "EVENFLOW_MODEL_PRICES has 'demo=cheap'" in said.err
    assert "name=input/output" in said.err


def _in_a_process(arguments: str, path: Path, **variables: str) -> str:
    """Run `evenflow …` beside a server. Returns what it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "evenflow", *arguments.split()],
        cwd=ROOT,
        env=clean_environment({"EVENFLOW_STORE_PATH": str(path), **variables}),
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()


def _is_kept(key: str, folder: Path) -> bool:
    return any(key.encode() in file.read_bytes() for file in folder.iterdir())


async def test_every_option_is_in_the_record(path: Path) -> None:
    arguments = (
        "tenants add acme --weight 0.5 --class interactive --models a,b --agents x --origins "
        "https://app.example.com --filtering hold --shadow --scopes sessions,api "
        "--requests-per-minute 1 --tokens-per-minute 2 --input-tokens-per-minute 3 "
        "--output-tokens-per-minute 4 --answers-at-once 5 --connections 6 --tokens-per-day 7 "
        "--dollars-per-month 8.5 --user-answers-at-once 1"
    )
    _in_a_process(arguments, path, EVENFLOW_MODEL_PRICES="a=1/2,b=1/2")
    stores = SQLiteStores(path, time.time)
    (record,) = (await stores.tenants.load()).records
    stores.close()
    (key,) = record.keys
    assert key.scopes == {Scope.SESSIONS, Scope.API}
    assert record == Tenant(
        id="acme",
        keys=(key,),
        weight=0.5,
        service_class=ServiceClass.INTERACTIVE,
        models=("a", "b"),
        agents=("x",),
        origins=("https://app.example.com",),
        filtering="hold",
        shadow=True,
        limits=QuotaLimits(
            requests_per_minute=1,
            tokens_per_minute=2,
            input_tokens_per_minute=3,
            output_tokens_per_minute=4,
            answers_at_once=5,
            connections=6,
            tokens_per_day=7,
            dollars_per_month=8.5,
        ),
        user_limits=QuotaLimits(answers_at_once=1),
    )


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        ("add a:b", "1 to 64 letters"),
        ("add b --weight 0", "a number from 0.01 to 1000"),
        ("add b --weight nan", "a number from 0.01 to 1000"),
        ("add b --tokens-per-minute -1", "a whole number from 1, or none"),
        ("add b --connections 1.5", "a whole number from 1, or none"),
        ("add b --dollars-per-month inf", "a number above 0, or none"),
        ("add b --class fast", "interactive, standard, batch"),
        ("add b --filtering drop", "hold, retract, off, none"),
        ("add b --scopes all", "sessions, api, read"),
        ("add b --models a,,b", "names, as in a,b, or none"),
        ("add b --agents ä", "1 to 64 letters"),
        ("add b --origins app.example.com", "https://app.example.com"),
        ("rotate b --overlap 1w", "30s, 15m, 24h or 7d, or 0"),
        ("rotate b --overlap 999999999d", "3650d at most"),
        ("key b --connections 0", "a whole number from 1, or none"),
        ("key b --scopes write", "sessions, api, read"),
        ("usage b --from 2020-02-30", "a day such as 2026-11-24"),
        ("usage a/b", "1 to 64 letters"),
        ("usage-file today", "a day such as 2026-11-24"),
        ("add", "tenant"),
        ("add b --colour red", "--colour red"),
        ("drop b", "remove"),
        ("", "action"),
    ],
)
def test_bad_input_is_answered_with_what_is_accepted(
    tenants: Command, path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, accepted: str
) -> None:
    monkeypatch.setenv("EVENFLOW_STORE_PATH", str(path))
    said = tenants(*arguments.split())
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert accepted in said.err
    assert not path.exists()


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"EVENFLOW_STORE": "memory"}, "keeps nothing has no records"),
        ({"EVENFLOW_STORE": "redis"}, "must be sqlite or dynamodb"),
        ({"EVENFLOW_STORE": "dynamodb"}, "EVENFLOW_TENANTS_TABLE must be set"),
        ({"EVENFLOW_STORE_PATH": "/dev/null/x.db"}, "EVENFLOW_STORE_PATH=/dev/null/x.db: "),
    ],
)
def test_a_store_without_records_is_refused(
    tenants: Command, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], why: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = tenants("list")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert why in said.err


async def test_a_running_server_takes_the_key_that_was_printed(
    serve: Serve, path: Path, http: aiohttp.ClientSession
) -> None:
    """The file is open in the server, and the command is another process."""
    server = await serve(store="sqlite", store_path=path)
    key = _in_a_process("tenants add acme", path)
    seen: Tenants = server.handler._tenants
    await serve.time_passes_until(
        _until(lambda: seen.with_key(key, 0.0) is not None, http, server.http_url)
    )
    opened = await call(
        http, "POST", f"{server.http_url}/session", {}, headers={"Authorization": f"Bearer {key}"}
    )
    assert opened.status == 201
    assert not _is_kept(key, path.parent)


async def _until(seen: Callable[[], bool], http: aiohttp.ClientSession, url: str) -> None:
    while not seen():
        await call(http, "GET", f"{url}/health")


def test_a_table_that_is_not_there_is_named(
    tenants: Command, emulated_dynamodb: DynamoDBEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulated_dynamodb.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EVENFLOW_STORE", "dynamodb")
    monkeypatch.setenv("EVENFLOW_TENANTS_TABLE", "no-tenants")
    said = tenants("list")
    assert (said.status, said.out, said.err.count("\n")) == (1, "", 1)
    assert "EVENFLOW_TENANTS_TABLE=no-tenants: " in said.err
