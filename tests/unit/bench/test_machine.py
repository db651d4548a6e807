"""Whether the measured server is said to be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import machine


def test_a_build_that_is_not_finished_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "evenflow__mypyc.so").touch()
    monkeypatch.delenv("EVENFLOW_COMPILED", raising=False)
    monkeypatch.setattr(machine, "COMPILED", tmp_path)
    reason = machine.why_interpreted.__wrapped__()
    assert reason is not None
    assert reason.startswith("nothing was compiled")
