"""`make check` runs every lane to its end, and fails for one that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lanes import main

_MAKEFILE = """
good:
	@echo quiet
bad:
	@echo what is wrong; exit 3
says:
	@timeout $(PATIENCE) sh -c "echo something > pipe"
hears:
	@timeout $(PATIENCE) cat pipe
"""


@pytest.fixture(autouse=True)
def two_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two, in a folder with the Makefile."""
    (tmp_path / "Makefile").write_text(_MAKEFILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.mark.parametrize(
    ("names", "status"),
    [(["good"], 0), (["bad", "good"], 1), (["good", "--", "bad"], 1), (["--", "good"], 0)],
)
def test_a_lane_that_fails_is_shown_and_the_others_go_on(
    names: list[str], status: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(names, tmp_path / "logs") == status
    printed = capfd.readouterr().out
    assert ("what is wrong" in printed) == (status == 1)
    assert "good passed after" in printed
    assert "quiet" not in printed
    assert (tmp_path / "logs" / "good.log").read_text() == "quiet\n"


def test_two_run_at_once_behind_the_dashes_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("PATIENCE", "20")
    assert main(["--", "says", "hears"], tmp_path / "logs") == 0
    monkeypatch.setenv("PATIENCE", "0.2")
    assert main(["says", "hears"], tmp_path / "logs") == 1
