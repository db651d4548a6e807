"""`evenflow serve`: its options are variables. tests/integration/test_installation.py serves."""

from __future__ import annotations

import os

import pytest

from evenflow.__main__ import main


@pytest.fixture(autouse=True)
def _variables_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PORT", "MODEL", "MODEL_URL", "MODEL_NAME"):
        monkeypatch.setenv(f"EVENFLOW_{name}", "")
        monkeypatch.delenv(f"EVENFLOW_{name}")


def test_an_option_goes_before_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVENFLOW_HTTP_PORT", "8080")
    assert main(["serve", "--port", "none"]) == 2
    assert capsys.readouterr().err == (
        "evenflow: EVENFLOW_HTTP_PORT='none': must be a whole number from 1 to 65535\n"
    )


@pytest.mark.parametrize("variables", [{}, {"EVENFLOW_MODEL": "demo"}])
def test_a_models_url_is_that_of_an_openai_compatible_server_unless_a_model_is_chosen(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    # A port that stops the start behind what is looked at.
    assert main(["serve", "--model-url", "http://127.0.0.1:8000/v1", "--port", "0"]) == 2
    assert os.environ["EVENFLOW_MODEL"] == variables.get("EVENFLOW_MODEL", "openai")


def test_the_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = capsys.readouterr().out
    assert all(f"\n    {command} " in listed for command in ("serve", "tenants", "doctor"))
