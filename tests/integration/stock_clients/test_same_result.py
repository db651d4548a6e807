"""Clients from the registries, as they come: through Evenflow they see what they see without it."""

from __future__ import annotations

import pytest

from tests.integration.stock_clients.clients import CLIENTS, REFUSED
from tests.integration.stock_clients.conftest import Runs

# A client is run once, for all of its scenarios, beside the others.
pytestmark = pytest.mark.parametrize(
    ("client", "scenario"),
    [
        pytest.param(client.name, scenario, marks=pytest.mark.xdist_group(client.name))
        for client in CLIENTS.values()
        for scenario in client.scenarios
    ],
)
# The words of an error are each server's own.
_OWN_WORDS = {"message"}
# Evenflow tells OpenAI's clients not to ask again, where OpenAI's own API lets them ask three times
# for nothing.
_NOT_AGAIN = {"no_quota"}


def _compared(saw: object) -> object:
    if isinstance(saw, dict) and "raised" in saw:
        return {key: value for key, value in saw.items() if key not in _OWN_WORDS}
    return saw


def test_the_client_sees_the_same(runs: Runs, client: str, scenario: str) -> None:
    direct, through = (runs(client)[side].saw[scenario] for side in ("direct", "through"))
    raised = isinstance(direct, dict) and "raised" in direct
    assert raised == (scenario in REFUSED), f"the scenario itself is broken: {direct}"
    assert _compared(through) == _compared(direct), f"through Evenflow: {through}"


def test_the_model_is_asked_the_same(runs: Runs, client: str, scenario: str) -> None:
    direct, through = (runs(client)[side].asked_for(scenario) for side in ("direct", "through"))
    assert direct or scenario == "models", "the upstream was not asked"
    assert through == (direct[:1] if scenario in _NOT_AGAIN else direct)
