"""`make check` runs every lane to its end, and fails for one that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lanes import main

_MAKEFILE = """
good:
	@echo quiet
bad:
	@echo what is wrong; exit 3
"""


@pytest.mark.parametrize(("names", "status"), [(["good"], 0), (["bad", "good"], 1)])
def test_a_lane_that_fails_is_shown_and_the_others_go_on(
    names: list[str], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Makefile").write_text(_MAKEFILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    assert main(names, tmp_path / "logs") == status
    printed = capfd.readouterr().out
    assert ("what is wrong" in printed) == (status == 1)
    assert "good passed after" in printed
    assert "quiet" not in printed
    assert (tmp_path / "logs" / "good.log").read_text() == "quiet\n"
