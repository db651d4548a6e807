"""The stores of one machine, as the settings choose them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenflow.fargate_handler.adapters import own_stores
from evenflow.fargate_handler.chosen_adapters import open_adapters
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_core.stores.memory_store import MemoryResponseStore
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS
from evenflow.stream_sqlite.response_store import SQLiteResponseStore
from tests.integration.stores.stores import NOW, new_channel, new_message

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_setting_it_is_a_file_in_the_folder_of_the_process(tmp_path: Path) -> None:
    with own_stores(HandlerSettings()) as stores:
        assert isinstance(stores.responses, SQLiteResponseStore)
        assert stores.outlives_process
    assert (tmp_path / ".evenflow" / "evenflow.db").is_file()


def test_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    with own_stores(HandlerSettings(store="memory")) as stores:
        assert isinstance(stores.responses, MemoryResponseStore)
        assert not stores.outlives_process
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cant_be_used_stops_the_start_with_the_variables_name(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    path.write_text("something else, and longer than a page's head: " + "x" * 4_096)
    with pytest.raises(ConfigurationError) as refused, own_stores(HandlerSettings(store_path=path)):
        pass
    message = str(refused.value)
    assert message.startswith(f"EVENFLOW_STORE_PATH={path}: ")
    assert "\n" not in message


async def test_sessions_outlive_the_process_with_the_file(tmp_path: Path) -> None:
    async def keys(**settings: object) -> dict[str, bytes]:
        async with open_adapters(HandlerSettings.model_validate(settings), Metrics()) as adapters:
            return adapters.signing_keys

    assert await keys() == await keys()
    assert await keys(store="memory") != await keys(store="memory")
    assert await keys(token_keys=f"k1:{KEY}") == {"k1": KEY.encode()}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_messages_are_kept_as_long_as_the_settings_say(store: str) -> None:
    settings = HandlerSettings.model_validate(
        {"store": store, "session_ttl_seconds": 2 * LIFETIME_SECONDS}
    )
    with own_stores(settings) as stores:
        message = new_message(None)
        await stores.sessions.accept(channel := new_channel(), message, NOW)
        stored = await stores.sessions.load(channel, NOW + 1.5 * LIFETIME_SECONDS)
    assert list(stored.messages) == [message]
