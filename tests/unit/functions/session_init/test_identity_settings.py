from __future__ import annotations

import pytest

from evenflow.functions.settings import FunctionConfigurationError, oidc


def test_the_function_reads_the_handlers_variables() -> None:
    variables = {
        "EVENFLOW_OIDC_ISSUER": "https://login.example.com/",
        "EVENFLOW_OIDC_AUDIENCE": "a",
        "EVENFLOW_OIDC_TENANT_CLAIM": "org",
    }
    settings = oidc(variables)
    assert settings is not None
    assert settings.to_variables() == variables
    assert oidc({}) is None


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({"EVENFLOW_OIDC_ISSUER": "https://login.example.com/"}, "EVENFLOW_OIDC_AUDIENCE"),
        ({"EVENFLOW_OIDC_AUDIENCE": "a"}, "EVENFLOW_OIDC_ISSUER"),
    ],
)
def test_half_an_identity_provider_stops_the_start(variables: dict[str, str], wrong: str) -> None:
    with pytest.raises(FunctionConfigurationError, match=wrong):
        oidc(variables)
