"""A handler that cannot have what it needs of AWS doesn't start, and says in one line what is
wrong.
"""

from __future__ import annotations

import os

import pytest

from tests.integration.aws_emulator import AwsEmulator
from tests.integration.local_server import refusal
from tests.integration.server_process import free_port

KEY = "0123456789abcdef0123456789abcdef"
TABLES = {
    "EVENFLOW_STORE": "dynamodb",
    "EVENFLOW_SESSIONS_TABLE": "t-sessions",
    "EVENFLOW_LEDGER_TABLE": "t-ledger",
    "EVENFLOW_RESPONSES_TABLE": "t-responses",
}
NOWHERE = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nowhere",
    "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
}
REGION = {"AWS_REGION": "us-east-1"}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine knows of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def unreachable() -> dict[str, str]:
    """An AWS behind a port on which nobody listens."""
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}", **REGION, **CREDENTIALS}


@pytest.fixture(scope="module")
def emulator(emulated_aws: AwsEmulator) -> AwsEmulator:
    """One with the four tables, and with secrets that hold keys and that don't."""
    emulated_aws.create_tables("t")
    for name, value in (
        ("tokens", f'{{"k1": "{KEY}"}}'),
        ("short-tokens", '{"k1": "hush-hush"}'),
        ("text-tokens", KEY),
    ):
        emulated_aws.client("secretsmanager").create_secret(Name=name, SecretString=value)
    return emulated_aws


async def _refused(variables: dict[str, str]) -> str:
    line = await refusal(NOWHERE | variables)
    assert KEY not in line
    assert "hush-hush" not in line
    return line


@pytest.mark.parametrize("missing", [name for name in TABLES if name.endswith("TABLE")])
@pytest.mark.parametrize("empty", [False, True])
async def test_a_table_without_a_name(missing: str, empty: bool) -> None:
    variables = {name: value for name, value in TABLES.items() if name != missing} | (
        {missing: ""} if empty else {}
    )
    assert missing in await _refused(variables)


async def test_tables_that_cannot_be_reached(unreachable: dict[str, str]) -> None:
    line = await _refused(TABLES | unreachable)
    assert "EVENFLOW_STORE=dynamodb" in line
    assert "EndpointConnectionError" in line


async def test_a_secret_that_cannot_be_reached(unreachable: dict[str, str]) -> None:
    assert "EVENFLOW_TOKEN_KEYS_SECRET=tokens" in await _refused(
        {"EVENFLOW_TOKEN_KEYS_SECRET": "tokens"} | unreachable
    )


@pytest.mark.parametrize(
    "wanted",
    [TABLES, {"EVENFLOW_TOKEN_KEYS_SECRET": "tokens"}, {"EVENFLOW_METRICS": "cloudwatch"}],
    ids=lambda w: next(iter(w)),
)
async def test_without_a_region(wanted: dict[str, str]) -> None:
    assert "AWS_REGION" in await _refused(wanted | CREDENTIALS)


async def test_without_credentials(unreachable: dict[str, str]) -> None:
    nobody = {name: value for name, value in unreachable.items() if name not in CREDENTIALS}
    assert "NoCredentials" in await _refused(TABLES | nobody)


@pytest.mark.parametrize(
    "wrong", [*(name for name in TABLES if name.endswith("TABLE")), "EVENFLOW_TENANTS_TABLE"]
)
async def test_a_table_that_does_not_exist(emulator: AwsEmulator, wrong: str) -> None:
    assert wrong in await _refused(TABLES | emulator.environment | {wrong: f"no-{wrong.lower()}"})


@pytest.mark.parametrize("variable", ["EVENFLOW_TOKEN_KEYS_SECRET", "EVENFLOW_TENANT_KEYS_SECRET"])
@pytest.mark.parametrize("secret", ["no-such-tokens", "short-tokens", "text-tokens"])
async def test_a_secret_that_holds_no_keys(
    emulator: AwsEmulator, variable: str, secret: str
) -> None:
    line = await _refused({variable: secret} | emulator.environment)
    assert f"{variable}={secret}" in line
